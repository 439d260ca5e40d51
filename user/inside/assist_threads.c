// SPDX-License-Identifier: GPL-2.0-only
/* Inside the assist: the threads that it traces and the processes they belong to, in tables of fixed size. */
#include "user/inside/assist_internal.h"

#include <stddef.h>

#define BUCKETS 4096
#define END     UINT16_MAX

/* Entries that are in use hang in a chain of their bucket, those that are not in the chain `unused`. */
struct chains {
	uint16_t first[BUCKETS];
	uint16_t *next;
	uint16_t unused;
	uint16_t fresh; /* entries from here on were never used */
	uint16_t size;
	unsigned int count;
};

static struct assist_thread thread_table[ASSIST_MAX_THREADS];
static struct assist_member member_table[ASSIST_MAX_PROCESSES];
static uint16_t thread_next[ASSIST_MAX_THREADS], member_next[ASSIST_MAX_PROCESSES];
static struct chains threads = { .next = thread_next, .unused = END, .size = ASSIST_MAX_THREADS };
static struct chains members = { .next = member_next, .unused = END, .size = ASSIST_MAX_PROCESSES };

/* `first` holds entry numbers plus one, so that a table of zeroes is empty. */
static uint16_t chain_first(const struct chains *c, pid_t id)
{
	return (uint16_t)(c->first[(unsigned int)id % BUCKETS] - 1);
}

static uint16_t chain_add(struct chains *c, pid_t id)
{
	uint16_t i = c->unused;

	if (i != END)
		c->unused = c->next[i];
	else if (c->fresh < c->size)
		i = c->fresh++;
	else
		return END;
	c->next[i] = chain_first(c, id);
	c->first[(unsigned int)id % BUCKETS] = i + 1;
	c->count++;
	return i;
}

static void chain_drop(struct chains *c, pid_t id, uint16_t i)
{
	uint16_t at = chain_first(c, id);

	if (at == i) {
		c->first[(unsigned int)id % BUCKETS] = c->next[i] + 1;
	} else {
		while (c->next[at] != i)
			at = c->next[at];
		c->next[at] = c->next[i];
	}
	c->next[i] = c->unused;
	c->unused = i;
	c->count--;
}

struct assist_member *members_find(pid_t pid)
{
	for (uint16_t i = chain_first(&members, pid); i != END; i = members.next[i]) {
		if (member_table[i].pid == pid)
			return &member_table[i];
	}
	return NULL;
}

struct assist_member *members_add(pid_t pid)
{
	uint16_t i = chain_add(&members, pid);

	if (i == END)
		return NULL;
	member_table[i] = (struct assist_member){ .pid = pid };
	return &member_table[i];
}

void members_drop(struct assist_member *process)
{
	chain_drop(&members, process->pid, process - member_table);
	process->pid = 0;
}

void members_each(void (*visit)(struct assist_member *))
{
	for (uint16_t i = 0; i < members.fresh; i++) {
		if (member_table[i].pid)
			visit(&member_table[i]);
	}
}

struct assist_thread *threads_find(pid_t tid)
{
	for (uint16_t i = chain_first(&threads, tid); i != END; i = threads.next[i]) {
		if (thread_table[i].tid == tid)
			return &thread_table[i];
	}
	return NULL;
}

struct assist_thread *threads_add(pid_t tid, struct assist_member *process)
{
	uint16_t i = chain_add(&threads, tid);

	if (i == END)
		return NULL;
	thread_table[i] = (struct assist_thread){ .tid = tid, .process = process };
	process->count++;
	return &thread_table[i];
}

void threads_drop(struct assist_thread *thread)
{
	chain_drop(&threads, thread->tid, thread - thread_table);
	thread->tid = 0;
	thread->process->count--;
}

unsigned int threads_count(void)
{
	return threads.count;
}

void threads_each(const struct assist_member *process, void (*visit)(struct assist_thread *))
{
	for (uint16_t i = 0; i < threads.fresh; i++) {
		if (thread_table[i].tid && (!process || thread_table[i].process == process))
			visit(&thread_table[i]);
	}
}
