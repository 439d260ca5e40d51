// SPDX-License-Identifier: GPL-2.0-only
#include "user/observe/seen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "user/observe/wire_names.h"

#define SNAP     4096
#define MOST     8192 /* names that are kept; then the oldest goes */
#define AT_ONCE  1000 /* packets, before the caller has its turn again */
#define IP6_HEAD 40
#define UDP_HEAD 8
#define DNS_PORT 53

const char *const seen_how_names[] = { "address", "dns", "tls", NULL };
_Static_assert(sizeof(seen_how_names) / sizeof(seen_how_names[0]) == SEEN_HOW_COUNT + 1,
	       "seen_how_names must name every value");

struct sight {
	struct in6_addr address;
	uint16_t port; /* of TLS; 0: any */
	enum seen_how how;
	char name[WIRE_NAME_LEN];
};

struct seen {
	int fd;
	struct sight *list;
	size_t count, next; /* which goes first */
};

/*
 * Answers of DNS and ClientHellos: the packet begins with IP's head.
 *
 *	X = length of that head; TCP: the record is a handshake (22), and that a ClientHello (1); UDP: from port 53
 */
static const struct sock_filter filter[] = {
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
	BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x60, 5, 0), /* IPv6 */
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x40, 0, 20),
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 6),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 18, 0), /* a later fragment */
	BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
	BPF_JUMP(BPF_JMP | BPF_JA, 2, 0, 0),
	BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, IP6_HEAD),
	BPF_JUMP(BPF_JMP | BPF_JA, 2, 0, 0),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 9),
	BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 6),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 8, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 9),
	BPF_STMT(BPF_LD | BPF_B | BPF_IND, 12),
	BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0),
	BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 2),
	BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
	BPF_STMT(BPF_MISC | BPF_TAX, 0),
	BPF_STMT(BPF_LD | BPF_H | BPF_IND, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x1603, 3, 2),
	BPF_STMT(BPF_LD | BPF_H | BPF_IND, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, DNS_PORT, 3, 0),
	BPF_STMT(BPF_RET | BPF_K, 0),
	BPF_STMT(BPF_LD | BPF_B | BPF_IND, 5),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SNAP),
	BPF_STMT(BPF_RET | BPF_K, 0),
};

/* ---- what was seen ---- */

static struct sight *find(const struct seen *seen, const struct in6_addr *address, uint16_t port, enum seen_how how)
{
	for (size_t i = 0; i < seen->count; i++) {
		struct sight *one = &seen->list[i];

		if (one->how == how && one->port == port && IN6_ARE_ADDR_EQUAL(&one->address, address))
			return one;
	}
	return NULL;
}

static void keep(struct seen *seen, const char *name, const struct in6_addr *address, uint16_t port, enum seen_how how)
{
	struct sight *one = find(seen, address, port, how);

	if (!one && seen->count < MOST) {
		one = &seen->list[seen->count++];
	} else if (!one) {
		one = &seen->list[seen->next];
		seen->next = (seen->next + 1) % MOST;
	}
	*one = (struct sight){ .address = *address, .port = port, .how = how };
	strcpy(one->name, name);
}

static void on_answer(const char *name, const struct in6_addr *address, void *arg)
{
	keep(arg, name, address, 0, SEEN_DNS);
}

/* ---- packets ---- */

/* Where the packet goes, and where the head of UDP or TCP begins; 0: no packet of those that the filter passes. */
static size_t read_head(const uint8_t *data, size_t len, struct in6_addr *to, uint8_t *protocol)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	size_t head;

	if (len >= IP6_HEAD && data[0] >> 4 == 6) {
		memcpy(to->s6_addr, data + 24, 16);
		*protocol = data[6];
		return IP6_HEAD;
	}
	head = len >= 20 ? (size_t)(data[0] & 0xf) * 4 : 0;
	if (head < 20 || len < head || data[0] >> 4 != 4)
		return 0;
	memcpy(to->s6_addr, mapped, 12);
	memcpy(to->s6_addr + 12, data + 16, 4);
	*protocol = data[9];
	return head;
}

static void take(struct seen *seen, const uint8_t *data, size_t len)
{
	char name[WIRE_NAME_LEN];
	struct in6_addr to;
	uint8_t protocol;
	size_t at = read_head(data, len, &to, &protocol);

	if (!at || len < at + UDP_HEAD)
		return;
	if (protocol == IPPROTO_UDP) {
		wire_dns_answer(data + at + UDP_HEAD, len - at - UDP_HEAD, on_answer, seen);
	} else if (protocol == IPPROTO_TCP && len >= at + 20) {
		uint16_t port = (uint16_t)(data[at + 2] << 8 | data[at + 3]);
		size_t payload = at + (size_t)(data[at + 12] >> 4) * 4;

		if (payload < len && wire_client_hello(data + payload, len - payload, name))
			keep(seen, name, &to, port, SEEN_TLS);
	}
}

/* ---- the socket ---- */

int seen_open(struct seen **seen, struct error *err)
{
	const struct sock_fprog program = { .len = sizeof(filter) / sizeof(filter[0]),
					    .filter = (struct sock_filter *)filter };
	struct seen *made = calloc(1, sizeof(*made));
	int ret;

	*seen = NULL;
	if (made)
		made->list = calloc(MOST, sizeof(*made->list));
	if (!made || !made->list) {
		free(made);
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	}
	/* No protocol yet: nothing comes before the filter is there. */
	made->fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (made->fd >= 0) {
		const struct sockaddr_ll all = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };

		if (setsockopt(made->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0 &&
		    bind(made->fd, (const struct sockaddr *)&all, sizeof(all)) == 0) {
			*seen = made;
			return 0;
		}
	}
	ret = error_set(err, -errno, EXIT_FAILED, "cannot listen for names: %s", strerror(errno));
	seen_close(made);
	return ret;
}

void seen_close(struct seen *seen)
{
	if (!seen)
		return;
	if (seen->fd >= 0)
		close(seen->fd);
	free(seen->list);
	free(seen);
}

int seen_fd(const struct seen *seen)
{
	return seen->fd;
}

void seen_read(struct seen *seen)
{
	uint8_t data[SNAP];
	ssize_t got;

	for (int i = 0; i < AT_ONCE && (got = recv(seen->fd, data, sizeof(data), 0)) >= 0; i++)
		take(seen, data, (size_t)got);
}

const char *seen_name(const struct seen *seen, const struct in6_addr *address, uint16_t port, enum seen_how *how)
{
	const struct sight *one = find(seen, address, port, SEEN_TLS) ?: find(seen, address, 0, SEEN_DNS);

	*how = one ? one->how : SEEN_NOT;
	return one ? one->name : NULL;
}
