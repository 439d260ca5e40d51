// SPDX-License-Identifier: GPL-2.0-only
#include "user/state/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <linux/pkt_sched.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A record takes some 300 bytes, so this is thousands of devices. */
#define MAX_SIZE      (4 * 1024 * 1024)
#define LOCK_ATTEMPTS 200 /* a millisecond apart */

static const char *const kind_name[] = { [JOURNAL_QDISC] = "qdisc", [JOURNAL_CLSACT] = "clsact" };
_Static_assert(sizeof(kind_name) / sizeof(*kind_name) == JOURNAL_KIND_COUNT, "a name for each kind of record");

/* The journal that is open for appending. */
static struct {
	int dir, fd;
	char path[PATH_MAX];
} open_journal = { .dir = -1, .fd = -1 };

/* Files */

/* Root alone may write there, else somebody could plant a record. */
static int check_ours(int fd, mode_t type)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if ((st.st_mode & S_IFMT) != type || st.st_uid != geteuid() || (st.st_mode & 022))
		return -EPERM;
	return 0;
}

static int open_dir(const char *path, bool make)
{
	char copy[PATH_MAX];
	const char *dir;
	int fd, ret;

	if ((size_t)snprintf(copy, sizeof(copy), "%s", path) >= sizeof(copy))
		return -ENAMETOOLONG;
	dir = dirname(copy);
	if (make && mkdir(dir, 0700) && errno != EEXIST)
		return -errno;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = check_ours(fd, S_IFDIR);
	if (ret) {
		close(fd);
		return ret;
	}
	return fd;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int open_file(int dir, const char *path, int flags)
{
	int fd, ret;

	fd = openat(dir, base_name(path), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	ret = check_ours(fd, S_IFREG);
	if (ret) {
		close(fd);
		return ret;
	}
	return fd;
}

/* The lock is only ever held for a moment; whoever holds it for long has been stopped, and must not stop us. */
static int lock(int fd)
{
	int i;

	for (i = 0; i < LOCK_ATTEMPTS; i++) {
		if (!flock(fd, LOCK_EX | LOCK_NB))
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		usleep(1000);
	}
	return -EBUSY;
}

/* Has the file been written anew under its name since we opened it? */
static bool was_replaced(int dir, const char *path, int fd)
{
	struct stat named, opened;

	if (fstat(fd, &opened) || fstatat(dir, base_name(path), &named, AT_SYMLINK_NOFOLLOW))
		return true;
	return named.st_ino != opened.st_ino || named.st_dev != opened.st_dev;
}

/* Opens and locks the file that now bears the name. */
static int open_locked(int dir, const char *path, int flags)
{
	int fd, ret, i;

	for (i = 0; i < LOCK_ATTEMPTS; i++) {
		fd = open_file(dir, path, flags);
		if (fd < 0)
			return fd;
		ret = lock(fd);
		if (!ret && !was_replaced(dir, path, fd))
			return fd;
		close(fd);
		if (ret)
			return ret;
	}
	return -EBUSY;
}

int journal_open(const char *path, struct error *err)
{
	int ret;

	journal_close();
	if ((size_t)snprintf(open_journal.path, sizeof(open_journal.path), "%s", path) >= sizeof(open_journal.path))
		return error_set(err, -ENAMETOOLONG, EXIT_FAILED, "the journal's path is too long");
	ret = open_journal.dir = open_dir(path, true);
	if (ret >= 0)
		ret = open_journal.fd = open_file(open_journal.dir, path, O_RDWR | O_CREAT | O_APPEND);
	if (ret >= 0)
		return 0;
	journal_close();
	error_set(err, ret, EXIT_FAILED, "cannot open the journal '%s': %s", path, strerror(-ret));
	if (ret == -EPERM)
		error_hint(err, "it and its directory must belong to the user that runs chaosbpf, and be writable by "
				"nobody else");
	return ret;
}

void journal_close(void)
{
	if (open_journal.fd >= 0)
		close(open_journal.fd);
	if (open_journal.dir >= 0)
		close(open_journal.dir);
	open_journal.fd = open_journal.dir = -1;
}

bool journal_is_open(void)
{
	return open_journal.fd >= 0;
}

/* Records as text */

/* FNV-1a: enough against torn lines and stray bytes. */
static uint32_t checksum(const char *text, size_t len)
{
	uint32_t sum = 2166136261U;
	size_t i;

	for (i = 0; i < len; i++)
		sum = (sum ^ (unsigned char)text[i]) * 16777619U;
	return sum;
}

/* " q=QUEUE:KIND:HANDLE:FLAG:OPTIONS", queue 0 is the root. */
static void print_qdisc(FILE *out, uint32_t queue, const struct qdisc *qdisc)
{
	uint32_t i;

	fprintf(out, " q=%u:%s:%x:", queue, qdisc->kind, qdisc->handle);
	for (i = 0; i < qdisc->options_len; i++)
		fprintf(out, "%02x", qdisc->options[i]);
}

static void print_record(FILE *out, const struct journal_record *record)
{
	size_t i;

	fprintf(out, "%s netns=%" PRIu64 " cookie=%" PRIu64 " ifindex=%u name=%s", kind_name[record->kind],
		record->netns, record->cookie, record->ifindex, record->name);
	fprintf(out, " txqlen=%u", record->tree.tx_queue_len);
	if (record->kind == JOURNAL_CLSACT) {
		fprintf(out, " made=%d", record->made);
		return;
	}
	print_qdisc(out, 0, &record->tree.root);
	for (i = 0; i < record->tree.children_count; i++)
		print_qdisc(out, TC_H_MIN(record->tree.children[i].parent), &record->tree.children[i]);
}

/* One line, newline included. NULL when there is no memory. */
static char *record_line(const struct journal_record *record, size_t *len)
{
	char *line = NULL;
	FILE *out = open_memstream(&line, len);

	if (!out)
		return NULL;
	print_record(out, record);
	if (!fflush(out))
		fprintf(out, " sum=%08x\n", checksum(line, *len));
	if (fclose(out)) {
		free(line);
		return NULL;
	}
	return line;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_options(const char *hex, struct qdisc *qdisc)
{
	for (; hex[0]; hex += 2) {
		if (hex_digit(hex[0]) < 0 || hex_digit(hex[1]) < 0 || qdisc->options_len == sizeof(qdisc->options))
			return false;
		qdisc->options[qdisc->options_len++] = hex_digit(hex[0]) * 16 + hex_digit(hex[1]);
	}
	return true;
}

static bool parse_qdisc(char *text, struct journal_record *record)
{
	struct qdisc_tree *tree = &record->tree;
	char *queue = strsep(&text, ":"), *kind = strsep(&text, ":"), *handle = strsep(&text, ":");
	struct qdisc *qdisc = &tree->root, *grown;

	if (!text || strlen(kind) >= sizeof(qdisc->kind))
		return false;
	if (strtoul(queue, NULL, 10)) {
		if (tree->children_count == QDISC_MAX_CHILDREN)
			return false;
		grown = realloc(tree->children, (tree->children_count + 1) * sizeof(*grown));
		if (!grown)
			return false;
		tree->children = grown;
		qdisc = &grown[tree->children_count++];
	}
	memset(qdisc, 0, sizeof(*qdisc));
	qdisc->ifindex = record->ifindex;
	qdisc->handle = strtoul(handle, NULL, 16);
	qdisc->parent = qdisc == &tree->root ? TC_H_ROOT : strtoul(queue, NULL, 10);
	strcpy(qdisc->kind, kind);
	return parse_options(text, qdisc);
}

static bool parse_field(char *word, struct journal_record *record)
{
	char *value = strchr(word, '=');

	if (!value)
		return false;
	*value++ = '\0';
	if (!strcmp(word, "netns"))
		record->netns = strtoull(value, NULL, 10);
	else if (!strcmp(word, "cookie"))
		record->cookie = strtoull(value, NULL, 10);
	else if (!strcmp(word, "ifindex"))
		record->ifindex = strtoul(value, NULL, 10);
	else if (!strcmp(word, "name"))
		snprintf(record->name, sizeof(record->name), "%s", value);
	else if (!strcmp(word, "made"))
		record->made = value[0] == '1';
	else if (!strcmp(word, "txqlen"))
		record->tree.tx_queue_len = strtoul(value, NULL, 10);
	else if (!strcmp(word, "q"))
		return parse_qdisc(value, record);
	return true;
}

/* `line` without its newline; it is torn up. */
static bool parse_record(char *line, size_t len, struct journal_record *record)
{
	char tail[sizeof(" sum=00000000")], *word, *save = NULL;
	const size_t tail_len = sizeof(tail) - 1;

	memset(record, 0, sizeof(*record));
	if (len <= tail_len || memchr(line, '\0', len))
		return false;
	len -= tail_len;
	snprintf(tail, sizeof(tail), " sum=%08x", checksum(line, len));
	if (strcmp(line + len, tail))
		return false;
	line[len] = '\0';
	word = strtok_r(line, " ", &save);
	while (word && record->kind < JOURNAL_KIND_COUNT && strcmp(word, kind_name[record->kind]))
		record->kind++;
	if (!word || record->kind == JOURNAL_KIND_COUNT)
		return false;
	while ((word = strtok_r(NULL, " ", &save)))
		if (!parse_field(word, record))
			return false;
	return record->ifindex != 0;
}

/* Appending and reading */

/* The file grew too long, so it is mostly records that newer ones supersede. */
static int shrink(void)
{
	struct error err;
	struct journal journal;
	int ret;
	size_t i;

	ret = journal_read_open(&journal);
	if (ret)
		return ret;
	for (i = 0; i < journal.count; i++) {
		struct journal_record *record = &journal.records[i];

		record->settled =
			record != journal_find(&journal, record->kind, record->netns, record->cookie, record->ifindex);
	}
	ret = journal_forget(open_journal.path, &journal, &err);
	journal_free(&journal);
	return ret;
}

static int reopen_locked(off_t *size)
{
	struct stat st;
	int fd;

	fd = open_locked(open_journal.dir, open_journal.path, O_RDWR | O_CREAT | O_APPEND);
	if (fd < 0)
		return fd;
	close(open_journal.fd);
	open_journal.fd = fd;
	if (fstat(fd, &st))
		return -errno;
	*size = st.st_size;
	return 0;
}

/* A line that was torn by a full file system must not take the next one with it. */
static int append_text(const char *line, size_t len, off_t size)
{
	char last = '\n';
	ssize_t done;

	if (size && pread(open_journal.fd, &last, 1, size - 1) != 1)
		return -EIO;
	if (last != '\n' && write(open_journal.fd, "\n", 1) != 1)
		return -ENOSPC;
	done = write(open_journal.fd, line, len);
	if (done < 0)
		return -errno;
	/* kill -9 leaves the page cache alone, and a crash of the machine takes the queues with it: no fsync. */
	return (size_t)done == len ? 0 : -ENOSPC;
}

int journal_append(const struct journal_record *record)
{
	char *line = NULL;
	off_t size = 0;
	size_t len;
	int ret;

	if (!journal_is_open())
		return 0;
	ret = reopen_locked(&size);
	if (!ret && size > MAX_SIZE) {
		flock(open_journal.fd, LOCK_UN);
		ret = shrink() ?: reopen_locked(&size);
	}
	if (!ret && size > MAX_SIZE)
		ret = -EFBIG;
	if (!ret) {
		line = record_line(record, &len);
		ret = line ? append_text(line, len, size) : -ENOMEM;
	}
	free(line);
	flock(open_journal.fd, LOCK_UN);
	return ret;
}

static int add_record(struct journal *journal, const struct journal_record *record)
{
	struct journal_record *grown = journal->records;

	if (!(journal->count & (journal->count - 1))) /* full at each power of two */
		grown = realloc(grown, (journal->count ? journal->count * 2 : 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	journal->records = grown;
	grown[journal->count++] = *record;
	return 0;
}

/* The whole file with a NUL behind it; NULL when it cannot be read. */
static char *read_text(int fd, size_t *len)
{
	char *text;
	struct stat st;
	ssize_t got;

	*len = 0;
	if (fstat(fd, &st) || st.st_size > 2 * MAX_SIZE)
		return NULL;
	text = calloc(1, st.st_size + 1);
	while (text && (off_t)*len < st.st_size) {
		got = pread(fd, text + *len, st.st_size - *len, *len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		*len += got;
	}
	return text;
}

static int read_records(int fd, struct journal *journal)
{
	char *text, *line, *end;
	struct journal_record record;
	size_t len;
	int ret = 0;

	text = read_text(fd, &len);
	if (!text)
		return -EFBIG;
	journal->size = len;
	journal->sum = checksum(text, len);
	for (line = text; !ret && line < text + len; line = end + 1) {
		end = memchr(line, '\n', text + len - line) ?: text + len;
		*end = '\0';
		if (parse_record(line, end - line, &record))
			ret = add_record(journal, &record);
		else
			qdisc_tree_free(&record.tree);
	}
	free(text);
	return ret;
}

int journal_read_open(struct journal *journal)
{
	memset(journal, 0, sizeof(*journal));
	return journal_is_open() ? read_records(open_journal.fd, journal) : 0;
}

int journal_read(const char *path, struct journal *journal, struct error *err)
{
	int dir, fd = -1, ret;

	memset(journal, 0, sizeof(*journal));
	ret = dir = open_dir(path, false);
	if (ret >= 0)
		ret = fd = open_file(dir, path, O_RDONLY);
	if (ret >= 0)
		ret = read_records(fd, journal);
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
	if (ret == -ENOENT)
		return 0;
	if (ret < 0)
		error_set(err, ret, EXIT_FAILED, "cannot read the journal '%s': %s", path, strerror(-ret));
	return ret;
}

void journal_free(struct journal *journal)
{
	size_t i;

	for (i = 0; i < journal->count; i++)
		qdisc_tree_free(&journal->records[i].tree);
	free(journal->records);
	memset(journal, 0, sizeof(*journal));
}

struct journal_record *journal_find(const struct journal *journal, enum journal_kind kind, uint64_t netns,
				    uint64_t cookie, unsigned int ifindex)
{
	struct journal_record *record;
	size_t i;

	for (i = journal->count; i-- > 0;) {
		record = &journal->records[i];
		if (record->kind == kind && record->netns == netns && record->ifindex == ifindex &&
		    record->cookie == cookie)
			return record;
	}
	return NULL;
}

/* Forgetting */

static int print_unsettled(FILE *out, const struct journal *journal)
{
	size_t i, len;
	char *line;

	for (i = 0; i < journal->count; i++) {
		if (journal->records[i].settled)
			continue;
		line = record_line(&journal->records[i], &len);
		if (!line)
			return -ENOMEM;
		fwrite(line, len, 1, out);
		free(line);
	}
	return 0;
}

/* What the new file is to hold. -ESTALE when it does not begin with what was read. */
static int remaining_text(int fd, const struct journal *journal, char **text, size_t *len)
{
	size_t present_len, read_len = journal->size;
	char *present = read_text(fd, &present_len);
	FILE *out;
	int ret;

	if (!present || present_len < read_len || checksum(present, read_len) != journal->sum) {
		free(present);
		return -ESTALE;
	}
	out = open_memstream(text, len);
	ret = out ? print_unsettled(out, journal) : -ENOMEM;
	if (!ret)
		fwrite(present + read_len, present_len - read_len, 1, out);
	if (out && fclose(out))
		ret = ret ?: -ENOMEM;
	free(present);
	return ret;
}

static int replace_file(int dir, const char *path, const char *text, size_t len)
{
	char temporary[NAME_MAX + 1];
	int fd, ret = 0;

	if (!len)
		return unlinkat(dir, base_name(path), 0) ? -errno : 0;
	snprintf(temporary, sizeof(temporary), ".%.200s.new", base_name(path));
	unlinkat(dir, temporary, 0);
	fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (write(fd, text, len) != (ssize_t)len)
		ret = -ENOSPC;
	close(fd);
	if (!ret && renameat(dir, temporary, dir, base_name(path)))
		ret = -errno;
	if (ret)
		unlinkat(dir, temporary, 0);
	return ret;
}

int journal_forget(const char *path, const struct journal *journal, struct error *err)
{
	int dir, fd = -1, ret;
	char *text = NULL;
	size_t len;

	ret = dir = open_dir(path, false);
	if (ret >= 0)
		ret = fd = open_locked(dir, path, O_RDONLY);
	if (ret >= 0)
		ret = remaining_text(fd, journal, &text, &len) ?: replace_file(dir, path, text, len);
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
	free(text);
	/* Gone, or somebody has just written it anew: then what is settled is left to the next time. */
	if (!ret || ret == -ENOENT || ret == -ESTALE)
		return 0;
	return error_set(err, ret, EXIT_FAILED, "cannot write the journal '%s': %s", path, strerror(-ret));
}
