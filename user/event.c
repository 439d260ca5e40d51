// SPDX-License-Identifier: GPL-2.0-only
#include "user/event.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "user/eventlog.h"
#include "user/state.h"
#include "user/store.h"

#define NS 1000000000ULL

double event_wall_time(uint64_t boot_ns)
{
	struct timespec boot, wall;

	clock_gettime(CLOCK_BOOTTIME, &boot);
	clock_gettime(CLOCK_REALTIME, &wall);
	return wall.tv_sec - boot.tv_sec + (wall.tv_nsec - boot.tv_nsec) / 1e9 + boot_ns / 1e9;
}

/* ---- from the ring to the log -------------------------------------------------------------------------------------- */

struct mover {
	struct eventlog *log;
	struct chaos_event batch[256];
	size_t count;
};

/* Events that the log had no room for; the kernel counts those that the ring had none for. */
static void count_dropped(uint64_t more)
{
	uint64_t dropped = eventlog_dropped() + more;
	int fd = open(STORE_EVENTS_DROPPED, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return;
	if (pwrite(fd, &dropped, sizeof(dropped), 0) != sizeof(dropped))
		unlink(STORE_EVENTS_DROPPED);
	close(fd);
}

uint64_t eventlog_dropped(void)
{
	uint64_t dropped = 0;
	int fd = open(STORE_EVENTS_DROPPED, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return 0;
	if (pread(fd, &dropped, sizeof(dropped), 0) != sizeof(dropped))
		dropped = 0;
	close(fd);
	return dropped;
}

static void flush(struct mover *m)
{
	const char *data = (const char *)m->batch;
	size_t size = m->count * sizeof(m->batch[0]);
	off_t end = lseek(m->log->fd, 0, SEEK_END);

	m->count = 0;
	if (end < 0)
		return;
	end -= end % sizeof(struct chaos_event); /* a torn record of somebody who was killed */
	if (end / sizeof(struct chaos_event) >= EVENTS_MAX ||
	    pwrite(m->log->fd, data, size, end) != (ssize_t)size)
		count_dropped(size / sizeof(struct chaos_event));
}

static int on_record(void *arg, void *data, size_t size)
{
	struct mover *m = arg;
	const struct chaos_event *event = data;

	if (size < sizeof(*event))
		return 0;
	if (event->kind != CHAOS_EVENT_FAULT) {
		if (m->log->on_notice)
			m->log->on_notice(event, m->log->arg);
		return 0;
	}
	m->batch[m->count++] = *event;
	if (m->count == sizeof(m->batch) / sizeof(m->batch[0]))
		flush(m);
	return 0;
}

int eventlog_open(uint32_t generation, bool fresh, struct eventlog *log)
{
	int ring;

	memset(log, 0, sizeof(*log));
	log->fd = open(STORE_EVENTS, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (fresh ? O_TRUNC : 0), 0600);
	if (log->fd < 0)
		return -errno;
	if (fresh)
		unlink(STORE_EVENTS_DROPPED);
	ring = store_open_pin(generation, "chaos_events");
	if (ring < 0) {
		close(log->fd);
		log->fd = -1;
		return ring;
	}
	log->ring_fd = ring;
	return 0;
}

int eventlog_move(struct eventlog *log)
{
	struct mover *m = calloc(1, sizeof(*m));
	struct ring_buffer *ring;
	int ret = 0;

	if (!m)
		return -ENOMEM;
	m->log = log;
	/* One mover at a time: two would each see every record that the other has not freed yet. */
	flock(log->fd, LOCK_EX);
	ring = ring_buffer__new(log->ring_fd, on_record, m, NULL);
	if (!ring) {
		ret = -errno;
	} else {
		ring_buffer__consume(ring);
		if (m->count)
			flush(m);
		ring_buffer__free(ring);
	}
	flock(log->fd, LOCK_UN);
	free(m);
	return ret;
}

void eventlog_close(struct eventlog *log)
{
	if (log->fd >= 0)
		close(log->fd);
	if (log->ring_fd > 0)
		close(log->ring_fd);
	log->fd = -1;
	log->ring_fd = -1;
}

/* ---- from the log to whoever asks ------------------------------------------------------------------------------------ */

struct reader {
	int fd;
	off_t at;
	struct rules *rules;
};

static const char *rule_name(const struct reader *r, uint32_t rule)
{
	return r->rules && rule < r->rules->count ? r->rules->rules[rule].name : "?";
}

static int read_new(struct reader *r, event_fn fn, void *arg)
{
	struct chaos_event events[128];

	for (;;) {
		ssize_t len = pread(r->fd, events, sizeof(events), r->at);
		size_t count = len > 0 ? len / sizeof(events[0]) : 0;

		if (!count)
			return 0;
		for (size_t i = 0; i < count; i++) {
			int ret = fn(&events[i], rule_name(r, events[i].rule), arg);

			if (ret)
				return ret;
		}
		r->at += count * sizeof(events[0]);
	}
}

/* Is the load that is recorded over, by its time or because it was stopped? */
static bool is_over(uint32_t generation)
{
	struct store_record record;
	struct error ignored;

	return store_read_record(&record, &ignored) != 0 || record.over || record.generation != generation;
}

static bool wait_woken(int wake_fd, int timeout_ms)
{
	struct pollfd poll_fd = { .fd = wake_fd, .events = POLLIN };

	return poll(&poll_fd, wake_fd >= 0 ? 1 : 0, timeout_ms) > 0;
}

int events_read(bool follow, int wake_fd, event_fn fn, void *arg, struct error *err)
{
	struct store_record record;
	struct reader r = { .fd = -1 };
	struct eventlog log = { .fd = -1 };
	int ret = store_read_record(&record, err);

	if (ret == -ENOENT)
		return 0;
	if (ret)
		return ret;
	if (state_rules(&r.rules, err))
		r.rules = NULL;
	/* Whoever serves the load moves events, and wants the news among them. */
	if (!record.over && !process_id_alive(&record.reaper) && !process_id_alive(&record.owner))
		eventlog_open(record.generation, false, &log);
	r.fd = open(STORE_EVENTS, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (r.fd < 0) {
		ret = errno == ENOENT ? 0 : error_set(err, -errno, EXIT_FAILED, "cannot open " STORE_EVENTS ": %s", strerror(errno));
		goto out;
	}
	for (;;) {
		bool over = is_over(record.generation);

		if (log.fd >= 0)
			eventlog_move(&log);
		ret = read_new(&r, fn, arg);
		if (ret || !follow || over || wait_woken(wake_fd, 100))
			break;
	}
out:
	if (log.fd >= 0)
		eventlog_close(&log);
	if (r.fd >= 0)
		close(r.fd);
	rules_free(r.rules);
	return ret;
}
