// SPDX-License-Identifier: GPL-2.0-only
#include "user/observe/wire_names.h"

#include <ctype.h>
#include <string.h>

#define DNS_HEAD      12
#define DNS_A         1
#define DNS_AAAA      28
#define DNS_POINTERS  32 /* of one name; more is a loop */
#define TLS_HANDSHAKE 22
#define TLS_HELLO     1
#define TLS_NAME      0 /* both the extension and the kind of name in it */

/* What is left to be read. Once it was too short, it stays so. */
struct reader {
	const uint8_t *data;
	size_t len, at;
	bool short_;
};

static bool has(struct reader *r, size_t bytes)
{
	if (r->short_ || r->len - r->at < bytes)
		r->short_ = true;
	return !r->short_;
}

static unsigned int number(struct reader *r, size_t bytes)
{
	unsigned int value = 0;

	if (!has(r, bytes))
		return 0;
	while (bytes--)
		value = value << 8 | r->data[r->at++];
	return value;
}

static void skip(struct reader *r, size_t bytes)
{
	if (has(r, bytes))
		r->at += bytes;
}

/* Characters of host names, and `_`, which some have; in lower case. 0: another. */
static char host_character(uint8_t c)
{
	return isalnum(c) || c == '-' || c == '_' ? (char)tolower(c) : 0;
}

/* ---- DNS ---- */

/* A name, which may go on elsewhere; false when it is no name of a host. The reader stands behind it either way. */
static bool read_name(struct reader *r, char name[WIRE_NAME_LEN])
{
	struct reader at = *r;
	size_t used = 0, pointers = 0;
	bool good = true;

	for (;;) {
		unsigned int length = number(&at, 1);

		if (length >= 0xc0) {
			size_t target = (length & 0x3f) << 8 | number(&at, 1);

			if (!pointers)
				r->at = at.at;
			if (at.short_ || ++pointers > DNS_POINTERS || target >= at.len)
				break;
			at.at = target;
			continue;
		}
		if (at.short_ || length > 63 || !length)
			break;
		if (!has(&at, length) || used + length + 2 > WIRE_NAME_LEN)
			break;
		if (used)
			name[used++] = '.';
		for (unsigned int i = 0; i < length; i++)
			good &= (name[used++] = host_character(at.data[at.at++])) != 0;
	}
	/* It ended with the label that is empty, or it is no name. */
	good &= !at.short_ && at.at && at.data[at.at - 1] == 0 && used;
	if (!pointers)
		r->at = at.at;
	r->short_ |= at.short_ && !pointers;
	name[used < WIRE_NAME_LEN ? used : WIRE_NAME_LEN - 1] = '\0';
	return good;
}

static bool read_record(struct reader *r, struct in6_addr *address)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	char ignored[WIRE_NAME_LEN];
	unsigned int type, length;
	bool found = false;

	read_name(r, ignored);
	type = number(r, 2);
	skip(r, 2 + 4);
	length = number(r, 2);
	if (!has(r, length))
		return false;
	if (type == DNS_A && length == 4) {
		memcpy(address->s6_addr, mapped, 12);
		memcpy(address->s6_addr + 12, r->data + r->at, 4);
		found = true;
	} else if (type == DNS_AAAA && length == 16) {
		memcpy(address->s6_addr, r->data + r->at, 16);
		found = true;
	}
	skip(r, length);
	return found;
}

size_t wire_dns_answer(const uint8_t *data, size_t len, wire_told told, void *arg)
{
	struct reader r = { .data = data, .len = len };
	unsigned int flags, questions, answers;
	char name[WIRE_NAME_LEN];
	struct in6_addr address;
	size_t found = 0;

	skip(&r, 2);
	flags = number(&r, 2);
	questions = number(&r, 2);
	answers = number(&r, 2);
	skip(&r, 4);
	if (r.short_ || !(flags & 0x8000) || flags & 0xf || questions != 1 || !read_name(&r, name))
		return 0;
	skip(&r, 4);
	while (answers-- && !r.short_) {
		if (read_record(&r, &address)) {
			told(name, &address, arg);
			found++;
		}
	}
	return found;
}

/* ---- TLS ---- */

/* What the reader stands before, no longer than `bytes`, and than what is there. */
static struct reader part(struct reader *r, size_t bytes)
{
	size_t there = r->len - r->at;
	struct reader p = { .data = r->data + r->at, .len = bytes < there ? bytes : there, .short_ = r->short_ };

	skip(r, bytes);
	return p;
}

static bool server_name(struct reader r, char name[WIRE_NAME_LEN])
{
	unsigned int length;

	skip(&r, 2);
	if (number(&r, 1) != TLS_NAME)
		return false;
	length = number(&r, 2);
	if (!has(&r, length) || !length || length >= WIRE_NAME_LEN)
		return false;
	for (unsigned int i = 0; i < length; i++) {
		uint8_t c = r.data[r.at++];

		name[i] = c == '.' ? '.' : host_character(c);
		if (!name[i])
			return false;
	}
	name[length] = '\0';
	return true;
}

bool wire_client_hello(const uint8_t *data, size_t len, char name[WIRE_NAME_LEN])
{
	struct reader r = { .data = data, .len = len };

	if (number(&r, 1) != TLS_HANDSHAKE)
		return false;
	skip(&r, 2 + 2); /* the record may end in another segment */
	if (number(&r, 1) != TLS_HELLO)
		return false;
	skip(&r, 3 + 2 + 32);
	skip(&r, number(&r, 1)); /* session */
	skip(&r, number(&r, 2)); /* ciphers */
	skip(&r, number(&r, 1)); /* compression */
	skip(&r, 2);
	while (!r.short_ && r.at < r.len) {
		unsigned int kind = number(&r, 2), length = number(&r, 2);

		if (r.short_)
			return false;
		if (kind == TLS_NAME)
			return server_name(part(&r, length), name);
		skip(&r, length);
	}
	return false;
}
