// SPDX-License-Identifier: GPL-2.0-only
#include "user/state/eventlog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "user/base/clock.h"
#include "user/state/event.h"
#include "user/state/store.h"

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
	if (end / sizeof(struct chaos_event) >= EVENTS_MAX || pwrite(m->log->fd, data, size, end) != (ssize_t)size)
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

static int ignore_record(void *arg, void *data, size_t size)
{
	(void)arg;
	(void)data;
	(void)size;
	return 0;
}

bool eventlog_wait_moved(uint32_t generation, int timeout_ms)
{
	int fd = store_open_pin(generation, "chaos_events");
	struct ring_buffer *ring = fd >= 0 ? ring_buffer__new(fd, ignore_record, NULL, NULL) : NULL;
	uint64_t until = boot_ns() + timeout_ms * 1000000ULL;
	bool moved = ring == NULL;

	while (!moved && boot_ns() < until) {
		moved = ring__avail_data_size(ring_buffer__ring(ring, 0)) == 0;
		if (!moved)
			usleep(2000);
	}
	ring_buffer__free(ring);
	if (fd >= 0)
		close(fd);
	/* Taken out of the ring is not yet in the log: whoever moves holds its lock until then. */
	fd = open(STORE_EVENTS, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0) {
		flock(fd, LOCK_SH);
		close(fd);
	}
	return moved;
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
