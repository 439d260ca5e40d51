// SPDX-License-Identifier: GPL-2.0-only
#include "user/state/event.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "user/state/eventlog.h"
#include "user/state/state.h"
#include "user/state/store.h"

#define MOVE_TIMEOUT_MS 2000

double event_wall_time(uint64_t boot_ns)
{
	struct timespec boot, wall;

	clock_gettime(CLOCK_BOOTTIME, &boot);
	clock_gettime(CLOCK_REALTIME, &wall);
	return wall.tv_sec - boot.tv_sec + (wall.tv_nsec - boot.tv_nsec) / 1e9 + boot_ns / 1e9;
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
	/* Whoever serves the load moves events, and wants the news among them; if it does not, we do. */
	if (!record.over && ((!process_id_alive(&record.reaper) && !process_id_alive(&record.owner)) ||
			     !eventlog_wait_moved(record.generation, MOVE_TIMEOUT_MS)))
		eventlog_open(record.generation, false, &log);
	r.fd = open(STORE_EVENTS, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (r.fd < 0) {
		ret = errno == ENOENT ? 0
				      : error_set(err, -errno, EXIT_FAILED, "cannot open " STORE_EVENTS ": %s",
						  strerror(errno));
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
