// SPDX-License-Identifier: GPL-2.0-only
/* The bytes of a rules file: reading them, and refusing those that no rules file holds. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/rules/rules_yaml.h"

/* A copy of `len` bytes, which may hold NUL, with a NUL behind them. */
char *bytes_copy(const char *bytes, size_t len)
{
	char *copy = malloc(len + 1);

	if (!copy)
		return NULL;
	memcpy(copy, bytes, len);
	copy[len] = '\0';
	return copy;
}

static int read_all(int fd, char **source, size_t *len)
{
	size_t room = RULES_MAX_FILE_SIZE + 1;
	char *buf = malloc(room);
	ssize_t got = 1;
	int err = 0;

	if (!buf)
		return -ENOMEM;
	for (*len = 0; *len < room && got > 0; *len += (size_t)got) {
		got = read(fd, buf + *len, room - *len);
		if (got < 0 && errno == EINTR) {
			got = 0;
			continue;
		}
		if (got < 0) {
			err = -errno;
			goto out;
		}
		if (got == 0)
			break;
	}
	*source = bytes_copy(buf, *len);
	if (!*source)
		err = -ENOMEM;
out:
	free(buf);
	return err;
}

int source_read_fd(struct rules *rules, int fd, struct error *err)
{
	int code = read_all(fd, &rules->source, &rules->source_len);

	if (code)
		return error_set(err, code, EXIT_USAGE, "cannot read '%s': %s", rules->file, strerror(-code));
	return 0;
}

int source_read(struct rules *rules, const char *path, struct error *err)
{
	bool standard_input = strcmp(path, "-") == 0;
	int fd, code;

	fd = standard_input ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, -errno, EXIT_USAGE, "cannot open '%s': %s", rules->file, strerror(errno));
	code = source_read_fd(rules, fd, err);
	close(fd);
	return code;
}

/* Length of the UTF-8 sequence at `s` and its code point; 0 when it is none (overlong, surrogate, cut, too large). */
static size_t utf8_decode(const unsigned char *s, size_t len, uint32_t *point)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t need;

	if (s[0] < 0x80)
		need = 1;
	else if (s[0] >= 0xc2 && s[0] < 0xe0)
		need = 2;
	else if (s[0] >= 0xe0 && s[0] < 0xf0)
		need = 3;
	else if (s[0] >= 0xf0 && s[0] < 0xf5)
		need = 4;
	else
		return 0;
	if (need > len)
		return 0;
	*point = need == 1 ? s[0] : s[0] & (0x7f >> need);
	for (size_t i = 1; i < need; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*point = *point << 6 | (s[i] & 0x3f);
	}
	if (*point < smallest[need] || *point > 0x10ffff || (*point >= 0xd800 && *point < 0xe000))
		return 0;
	return need;
}

/* What YAML would refuse or take for a line end, and what could play tricks on a terminal. */
static bool is_control(uint32_t point)
{
	return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x2028 || point == 0x2029 ||
	       (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069) || point == 0xfeff ||
	       point == 0xfffe || point == 0xffff;
}

bool text_is_clean(const char *text, size_t len)
{
	uint32_t point;
	size_t step;

	for (size_t i = 0; i < len; i += step) {
		step = utf8_decode((const unsigned char *)text + i, len - i, &point);
		if (step == 0 || is_control(point))
			return false;
	}
	return true;
}

int source_check(const struct rules *rules, struct error *err)
{
	const char *s = rules->source, *end = s + rules->source_len;
	struct mark mark = { 1, 1 };
	bool indent = true; /* nothing but spaces on this line so far */
	uint32_t point;
	size_t step;

	if (rules->source_len > RULES_MAX_FILE_SIZE)
		return rules_error_at(rules, mark, err, EXIT_USAGE, "the file is larger than 1 MiB");
	if (rules->source_len >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0)
		s += 3; /* a byte order mark */
	for (; s < end; s += step) {
		step = utf8_decode((const unsigned char *)s, (size_t)(end - s), &point);
		if (step == 0)
			return rules_error_at(rules, mark, err, EXIT_USAGE, "byte 0x%02x is not valid UTF-8",
					      (unsigned char)*s);
		if (point == '\n' || (point == '\r' && (s + 1 == end || s[1] != '\n'))) {
			mark.line++;
			mark.column = 1;
			indent = true;
			continue;
		}
		if (point == '\t' && indent)
			return rules_error_at(rules, mark, err, EXIT_USAGE,
					      "a tab in the indentation, YAML wants spaces there");
		if (is_control(point) && point != '\t' && point != '\r')
			return rules_error_at(rules, mark, err, EXIT_USAGE, "control character U+%04X", point);
		indent = indent && point == ' ';
		mark.column++;
	}
	return 0;
}
