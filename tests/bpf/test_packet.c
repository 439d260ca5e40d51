// SPDX-License-Identifier: GPL-2.0-only
/*
 * Packets in the running kernel: what parse() of bpf/packet.bpf.h reads, and what the device hooks (bpf/device.bpf.c) do
 * to a packet, byte for byte. The socket hooks see no real socket in BPF_PROG_TEST_RUN; vmtest drives them.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/pkt_cls.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "tests/bpf/loaded.h"

#define MARK 0xc4a05000u /* and the actions: bpf/packet.bpf.h */
enum { MARK_DROP = 1, MARK_RESET, MARK_RESET_PEER, MARK_HOLD, MARK_CORRUPT = 0x100, MARK_DUPLICATE = 0x200 };

#define UNSPEC TC_ACT_UNSPEC
#define REDIRECT TC_ACT_REDIRECT
#define PASS 1

enum { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16 };
enum { TCP = 6, UDP = 17, HOP_BY_HOP = 0, ROUTING = 43, FRAGMENT = 44, DESTINATION = 60 };

/* ---- packets --------------------------------------------------------------------------------------------------- */

struct wire {
	uint8_t bytes[2048];
	size_t size;	  /* the Ethernet header's included */
	size_t transport; /* from the network header */
};

/* All that makes a packet; zeroes are the plain one. */
struct recipe {
	bool ipv6;
	uint8_t protocol; /* 0: TCP */
	uint8_t source_mac[6], destination_mac[6];
	struct in6_addr source, destination;
	uint16_t source_port, destination_port;
	uint32_t seq, ack;
	uint8_t flags;
	size_t ip_options;	   /* bytes, IPv4 */
	size_t extensions;	   /* IPv6 headers of 8 bytes and more */
	uint8_t extension_type[8]; /* 0: hop by hop */
	size_t tcp_options;
	size_t payload;
	uint16_t fragment; /* field of the IPv4 header */
	uint8_t noise;	   /* what fills options and payload */
	size_t padding;	   /* behind the packet, as short frames have it */
};

static void put16(uint8_t *to, uint16_t value)
{
	to[0] = value >> 8;
	to[1] = value;
}

static void put32(uint8_t *to, uint32_t value)
{
	put16(to, value >> 16);
	put16(to + 2, value);
}

static uint16_t get16(const uint8_t *from)
{
	return from[0] << 8 | from[1];
}

static uint32_t get32(const uint8_t *from)
{
	return (uint32_t)get16(from) << 16 | get16(from + 2);
}

static uint32_t sum_up(uint32_t sum, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		sum += i % 2 ? data[i] : data[i] << 8;
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* The sum over transport header, payload and pseudo header: 0xffff when the checksum is right. */
static uint16_t transport_sum(const struct wire *w, const struct recipe *r)
{
	const uint8_t *ip = w->bytes + ETH_HLEN;
	size_t length = w->size - r->padding - ETH_HLEN - w->transport;
	uint32_t sum = length + (r->protocol ? r->protocol : TCP);

	sum = r->ipv6 ? sum_up(sum, ip + 8, 32) : sum_up(sum, ip + 12, 8);
	return fold(sum_up(sum, ip + w->transport, length));
}

static uint8_t *put_ipv4(uint8_t *at, const struct recipe *r, size_t rest)
{
	size_t header = 20 + r->ip_options;

	at[0] = 0x40 | header / 4;
	put16(at + 2, header + rest);
	put16(at + 6, r->fragment);
	at[8] = 64;
	at[9] = r->protocol ? r->protocol : TCP;
	memcpy(at + 12, &r->source.s6_addr[12], 4);
	memcpy(at + 16, &r->destination.s6_addr[12], 4);
	memset(at + 20, r->noise, r->ip_options);
	put16(at + 10, ~fold(sum_up(0, at, header)));
	return at + header;
}

static size_t extension_size(const struct recipe *r, size_t i)
{
	return r->extension_type[i] == FRAGMENT ? 8 : 8 * (1 + i % 3);
}

static uint8_t *put_ipv6(uint8_t *at, const struct recipe *r, size_t rest)
{
	uint8_t *next = at + 6;

	for (size_t i = 0; i < r->extensions; i++)
		rest += extension_size(r, i);
	at[0] = 0x60;
	put16(at + 4, rest);
	at[7] = 64;
	memcpy(at + 8, &r->source, 16);
	memcpy(at + 24, &r->destination, 16);
	at += 40;
	for (size_t i = 0; i < r->extensions; i++) {
		size_t size = extension_size(r, i);

		*next = r->extension_type[i];
		memset(at, r->noise, size);
		if (r->extension_type[i] == FRAGMENT)
			memset(at, 0, size);
		else
			at[1] = size / 8 - 1;
		next = at;
		at += size;
	}
	*next = r->protocol ? r->protocol : TCP;
	return at;
}

static uint8_t *put_tcp(uint8_t *at, const struct recipe *r)
{
	put16(at, r->source_port);
	put16(at + 2, r->destination_port);
	put32(at + 4, r->seq);
	put32(at + 8, r->ack);
	at[12] = (20 + r->tcp_options) / 4 << 4;
	at[13] = r->flags;
	put16(at + 14, 0x1234);
	put16(at + 18, 0x4321);
	memset(at + 20, r->noise, r->tcp_options);
	return at + 20 + r->tcp_options;
}

static uint8_t *put_udp(uint8_t *at, const struct recipe *r)
{
	put16(at, r->source_port);
	put16(at + 2, r->destination_port);
	put16(at + 4, 8 + r->payload);
	return at + 8;
}

static struct wire bake(const struct recipe *r)
{
	bool udp = r->protocol == UDP;
	struct wire w = { 0 };
	uint8_t *ip = w.bytes + ETH_HLEN, *at, *checksum;
	size_t rest = (udp ? 8 : 20 + r->tcp_options) + r->payload;

	memcpy(w.bytes, r->destination_mac, 6);
	memcpy(w.bytes + 6, r->source_mac, 6);
	put16(w.bytes + 12, r->ipv6 ? ETH_P_IPV6 : ETH_P_IP);
	at = r->ipv6 ? put_ipv6(ip, r, rest) : put_ipv4(ip, r, rest);
	w.transport = at - ip;
	checksum = at + (udp ? 6 : 16);
	at = udp ? put_udp(at, r) : put_tcp(at, r);
	memset(at, r->noise + 1, r->payload);
	at += r->payload;
	memset(at, 0xee, r->padding);
	w.size = at + r->padding - w.bytes;
	put16(checksum, ~transport_sum(&w, r));
	return w;
}

static struct recipe random_recipe(void)
{
	struct recipe r = {
		.ipv6 = one_in(2),
		.source_mac = { 2, 0, 0, 0, 0, 1 },
		.destination_mac = { 2, 0, 0, 0, 0, 2 },
		.source_port = below(65536),
		.destination_port = below(65536),
		.seq = below(UINT32_MAX),
		.ack = below(UINT32_MAX),
		.flags = below(256),
		.tcp_options = below(11) * 4,
		.payload = one_in(3) ? 0 : below(1200),
		.noise = below(255),
	};
	static const uint8_t types[] = { ROUTING, DESTINATION, HOP_BY_HOP };

	if (r.ipv6) {
		for (int i = 0; i < 16; i++) {
			r.source.s6_addr[i] = below(256);
			r.destination.s6_addr[i] = below(256);
		}
		r.extensions = below(4);
		for (size_t i = 0; i < r.extensions; i++)
			r.extension_type[i] = types[below(COUNT(types))];
	} else {
		r.source = address("10.1.2.3");
		r.destination = address("192.0.2.77");
		put32(&r.source.s6_addr[12], below(UINT32_MAX));
		put32(&r.destination.s6_addr[12], below(UINT32_MAX));
		r.ip_options = below(11) * 4;
	}
	return r;
}

static void expect_same(const struct wire *got, const struct wire *wanted, const char *what)
{
	cr_assert_eq(got->size, wanted->size, "%s: %zu bytes, expected %zu", what, got->size, wanted->size);
	for (size_t i = 0; i < got->size; i++)
		cr_assert_eq(got->bytes[i], wanted->bytes[i], "CHAOSBPF_SEED=%lu %s: byte %zu of %zu is %02x, expected %02x", seed,
			     what, i, got->size, got->bytes[i], wanted->bytes[i]);
}

/* ---- the world ------------------------------------------------------------------------------------------------- */

static void set_up(const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	cr_assert_eq(ioctl(fd, SIOCSIFFLAGS, &request), 0, "%s: %s", name, strerror(errno));
	close(fd);
}

/* A network namespace of the test's own: what leaves by a hook goes nowhere. */
static void world(void)
{
	need_bpf();
	cr_assert_eq(unshare(CLONE_NEWNET), 0);
	set_up("lo");
	begin_random();
}

TestSuite(packet, .init = world, .timeout = 300);

#define RESET_RULES "version: 1\nrules:\n- { name: a, match: { user: 1000 }, fault: { reset: true }, duration: 1h }\n"

/* ---- what is read ----------------------------------------------------------------------------------------------- */

/* The same by hand, with every check that there is; false: nothing may be read. */
static bool read_by_hand(const uint8_t *ip, size_t size, uint16_t type, struct parsed *p)
{
	size_t end, transport;
	uint8_t next;

	memset(p, 0, sizeof(*p));
	if (type == ETH_P_IP) {
		if (size < 20 || ip[0] >> 4 != 4 || (ip[0] & 15) < 5 || get16(ip + 6) & 0x1fff)
			return false;
		p->source[10] = p->source[11] = p->destination[10] = p->destination[11] = 0xff;
		memcpy(p->source + 12, ip + 12, 4);
		memcpy(p->destination + 12, ip + 16, 4);
		transport = (ip[0] & 15) * 4;
		end = get16(ip + 2);
		next = ip[9];
	} else if (type == ETH_P_IPV6) {
		if (size < 40 || ip[0] >> 4 != 6)
			return false;
		p->ipv6 = 1;
		memcpy(p->source, ip + 8, 16);
		memcpy(p->destination, ip + 24, 16);
		transport = 40;
		end = get16(ip + 4) ? get16(ip + 4) + 40 : 0;
		next = ip[6];
		for (int i = 0; i < 4 && (next == HOP_BY_HOP || next == ROUTING || next == DESTINATION); i++) {
			if (transport + 2 > size)
				return false;
			next = ip[transport];
			transport += (ip[transport + 1] + 1) * 8;
		}
	} else {
		return false;
	}
	if ((next != TCP && next != UDP) || transport + (next == TCP ? 20 : 8) > size)
		return false;
	if (next == TCP && ip[transport + 12] >> 4 < 5)
		return false;
	p->protocol = next == UDP ? CHAOS_UDP : CHAOS_TCP;
	p->transport = transport;
	p->source_port = get16(ip + transport);
	p->destination_port = get16(ip + transport + 2);
	p->payload_offset = transport + 8;
	if (next == TCP) {
		p->seq = get32(ip + transport + 4);
		p->ack = get32(ip + transport + 8);
		p->tcp_flags = ip[transport + 13];
		p->payload_offset = transport + (ip[transport + 12] >> 4) * 4;
	}
	if (!end || end > size)
		end = size;
	p->payload = end > p->payload_offset ? end - p->payload_offset : 0;
	return true;
}

static void expect_read(const struct loaded *l, const struct wire *w, const char *what)
{
	const struct bpf_program *programs[] = { l->test->progs.test_parse_tc, l->test->progs.test_parse_sock };

	for (size_t i = 0; i < COUNT(programs); i++) {
		struct parsed wanted, got;
		struct wire copy = *w;
		bool ok = read_by_hand(w->bytes + ETH_HLEN, w->size - ETH_HLEN, get16(w->bytes + 12), &wanted);

		memset(&l->test->bss->parsed, 0, sizeof(l->test->bss->parsed));
		run_on(bpf_program__fd(programs[i]), copy.bytes, copy.size, NULL, 1);
		got = l->test->bss->parsed;
		cr_assert_eq(got.ok, ok, "CHAOSBPF_SEED=%lu %s, %s: read %d, expected %d", seed, what,
			     bpf_program__name(programs[i]), got.ok, ok);
		if (!ok)
			continue;
		wanted.ok = 1;
#define SAME(field) cr_assert_eq(got.field, wanted.field, "CHAOSBPF_SEED=%lu %s, %s: " #field " %u, expected %u", seed, what, \
				 bpf_program__name(programs[i]), got.field, wanted.field)
		SAME(transport);
		SAME(payload_offset);
		SAME(payload);
		SAME(seq);
		SAME(ack);
		SAME(source_port);
		SAME(destination_port);
		SAME(protocol);
		SAME(tcp_flags);
		SAME(ipv6);
		cr_assert_eq(memcmp(&got, &wanted, sizeof(got)), 0, "%s: addresses", what);
	}
}

static bool was_read(const struct loaded *l)
{
	return l->test->bss->parsed.ok;
}

Test(packet, headers_of_every_shape_are_read)
{
	struct loaded l;

	load(&l, RESET_RULES);
	for (int i = 0; i < 1000; i++) {
		struct recipe r = random_recipe();
		struct wire w;

		r.protocol = one_in(3) ? UDP : TCP;
		r.padding = one_in(4) ? 1 + below(20) : 0;
		w = bake(&r);
		expect_read(&l, &w, r.ipv6 ? "IPv6" : "IPv4");
		cr_assert(was_read(&l));
		cr_assert_eq(l.test->bss->parsed.payload, r.payload, "%s: payload %u of %zu", r.ipv6 ? "IPv6" : "IPv4",
			     l.test->bss->parsed.payload, r.payload);
	}
	unload(&l);
}

Test(packet, what_is_cut_off_is_not_read)
{
	struct loaded l;

	load(&l, RESET_RULES);
	for (int i = 0; i < 12; i++) {
		struct recipe r = random_recipe();
		struct wire w;

		r.protocol = i % 3 ? TCP : UDP;
		r.payload = 20;
		w = bake(&r);
		/* A cgroup hook is never run on less than an IP header: neither does BPF_PROG_TEST_RUN. */
		for (w.size--; w.size >= ETH_HLEN + (r.ipv6 ? 40u : 20u); w.size--)
			expect_read(&l, &w, "cut off");
	}
	unload(&l);
}

Test(packet, fragments)
{
	struct recipe r = { .source = address("10.0.0.1"), .destination = address("10.0.0.2"), .payload = 50, .flags = ACK };
	static const struct {
		uint16_t field;
		bool read;
	} cases[] = { { 0, true }, { 0x4000, true }, { 0x2000, true }, { 0x2001, false }, { 1, false }, { 0x1fff, false } };
	struct loaded l;
	struct wire w;

	load(&l, RESET_RULES);
	for (size_t i = 0; i < COUNT(cases); i++) {
		r.fragment = cases[i].field;
		w = bake(&r);
		expect_read(&l, &w, "fragment");
		cr_expect_eq(was_read(&l), cases[i].read, "fragment field %#x", cases[i].field);
	}
	r = (struct recipe){ .ipv6 = true, .payload = 50, .extensions = 2, .extension_type = { DESTINATION, FRAGMENT } };
	w = bake(&r);
	expect_read(&l, &w, "IPv6 fragment");
	cr_expect_not(was_read(&l));
	unload(&l);
}

Test(packet, other_protocols_and_too_many_headers)
{
	struct recipe r = { .ipv6 = true, .payload = 10, .extensions = 4, .extension_type = { HOP_BY_HOP, DESTINATION, ROUTING, DESTINATION } };
	struct loaded l;
	struct wire w;

	load(&l, RESET_RULES);
	w = bake(&r);
	expect_read(&l, &w, "four headers");
	cr_expect(was_read(&l));
	r.extensions = 5;
	w = bake(&r);
	expect_read(&l, &w, "five headers");
	cr_expect_not(was_read(&l));
	for (int protocol = 1; protocol < 256; protocol++) {
		r = (struct recipe){ .source = address("10.0.0.1"), .destination = address("10.0.0.2"), .payload = 10, .protocol = protocol };
		w = bake(&r);
		expect_read(&l, &w, "protocol");
		cr_expect_eq(was_read(&l), protocol == TCP || protocol == UDP, "protocol %d", protocol);
	}
	put16(w.bytes + 12, 0x0806);
	expect_read(&l, &w, "ARP");
	unload(&l);
}

/* BIG TCP writes no length. */
Test(packet, a_length_of_zero_means_all_there_is)
{
	struct recipe r = { .ipv6 = true, .payload = 700, .flags = ACK };
	struct loaded l;
	struct wire w;

	load(&l, RESET_RULES);
	w = bake(&r);
	put16(w.bytes + ETH_HLEN + 4, 0);
	expect_read(&l, &w, "IPv6 without a length");
	r = (struct recipe){ .payload = 700, .flags = ACK };
	w = bake(&r);
	put16(w.bytes + ETH_HLEN + 2, 0);
	expect_read(&l, &w, "IPv4 without a length");
	unload(&l);
}

/* Bytes thrown in at random: whatever is read is what stands there. */
Test(packet, damaged_headers)
{
	struct loaded l;

	load(&l, RESET_RULES);
	for (int i = 0; i < 4000; i++) {
		struct recipe r = random_recipe();
		struct wire w;

		r.payload = below(30);
		r.protocol = one_in(3) ? UDP : TCP;
		w = bake(&r);
		for (int damage = 1 + below(4); damage > 0; damage--)
			w.bytes[ETH_HLEN + below(w.transport + 20)] = one_in(2) ? below(256) : below(7);
		if (one_in(3)) {
			size_t least = ETH_HLEN + (r.ipv6 ? 40 : 20);

			w.size = least + below(w.size - least + 1);
		}
		expect_read(&l, &w, "damaged");
	}
	unload(&l);
}

/* ---- what leaves ------------------------------------------------------------------------------------------------ */

static int leave(const struct loaded *l, struct wire *w, struct __sk_buff *skb)
{
	return run_on(l->engine.egress_fd, w->bytes, w->size, skb, 1);
}

static int leave_marked(const struct loaded *l, struct wire *w, uint32_t mark, unsigned int ifindex)
{
	struct __sk_buff skb = { .mark = mark, .ifindex = ifindex };
	int got = leave(l, w, &skb);

	if ((mark & 0xfffff000) == MARK)
		cr_assert_eq(skb.mark, 0, "our mark %#x is taken away, not %#x", mark, skb.mark);
	else
		cr_assert_eq(skb.mark, mark, "a mark of others stays");
	return got;
}

Test(packet, what_is_not_marked_leaves_as_it_is)
{
	static const uint32_t marks[] = { 0, 1, 0x1234, 0xc4a04fff, 0xc4a06001, 0xffffffff, 0xc4a15001 };
	struct loaded l;

	load(&l, RESET_RULES);
	for (int i = 0; i < 200; i++) {
		struct recipe r = random_recipe();
		struct wire w = bake(&r), before = w;

		cr_assert_eq(leave_marked(&l, &w, marks[i % COUNT(marks)], 0), UNSPEC);
		expect_same(&w, &before, "not marked");
	}
	unload(&l);
}

Test(packet, a_dropped_packet_is_sent_nowhere)
{
	struct loaded l;

	load(&l, RESET_RULES);
	for (int i = 0; i < 100; i++) {
		struct recipe r = random_recipe();
		struct wire w, before;

		r.protocol = one_in(2) ? UDP : TCP;
		w = before = bake(&r);
		cr_assert_eq(leave_marked(&l, &w, MARK | MARK_DROP, 0), REDIRECT);
		expect_same(&w, &before, "dropped");
	}
	unload(&l);
}

/* The RST that the peer would have sent: what a correct stack would build, checksums and all. */
static struct recipe turned_around(const struct recipe *r, bool macs)
{
	struct recipe t = *r;

	t.source = r->destination;
	t.destination = r->source;
	t.source_port = r->destination_port;
	t.destination_port = r->source_port;
	t.seq = r->ack;
	t.ack = r->seq + r->payload + !!(r->flags & (SYN | FIN));
	t.flags = RST | ACK;
	if (macs) {
		memcpy(t.source_mac, r->destination_mac, 6);
		memcpy(t.destination_mac, r->source_mac, 6);
	}
	return t;
}

/* 0 and 0xffff are the same checksum: which of the two is written is not compared, that it is right is. */
static void expect_packet(struct wire *got, const struct recipe *r, const char *what)
{
	struct wire wanted = bake(r);
	size_t checksum = ETH_HLEN + wanted.transport + 16;

	cr_assert_eq(fold(sum_up(0, got->bytes + ETH_HLEN, r->ipv6 ? 0 : 20 + r->ip_options)), r->ipv6 ? 0 : 0xffff, "%s: IP checksum", what);
	got->transport = wanted.transport;
	cr_assert_eq(transport_sum(got, r), 0xffff, "CHAOSBPF_SEED=%lu %s: TCP checksum", seed, what);
	memcpy(got->bytes + checksum, wanted.bytes + checksum, 2);
	expect_same(got, &wanted, what);
}

static void check_resets(const struct loaded *l, unsigned int ifindex, int verdict)
{
	for (int i = 0; i < 500; i++) {
		struct recipe r = random_recipe(), t;
		struct wire w = bake(&r);

		t = turned_around(&r, ifindex != 0);
		cr_assert_eq(leave_marked(l, &w, MARK | MARK_RESET, ifindex), verdict);
		expect_packet(&w, &t, "turned around");
	}
}

Test(packet, a_reset_on_lo_is_turned_around_and_goes_on)
{
	struct loaded l;

	load(&l, RESET_RULES);
	check_resets(&l, 0, UNSPEC);
	unload(&l);
}

/* Elsewhere it is handed back by the device, which swaps the Ethernet addresses as well. */
Test(packet, a_reset_on_another_device_is_handed_back)
{
	struct loaded l;

	if (system("ip link add chaos-t0 type dummy 2>/dev/null || ip link add chaos-t0 type veth peer name chaos-t1 2>/dev/null || "
		   "ip tuntap add chaos-t0 mode tap 2>/dev/null"))
		cr_skip_test("no dummy, veth or tap device can be made here");
	set_up("chaos-t0");
	load(&l, RESET_RULES);
	check_resets(&l, if_nametoindex("chaos-t0"), REDIRECT);
	unload(&l);
}

/* BIG TCP: the number that the sender expects next comes from what is there. */
Test(packet, a_reset_of_a_packet_without_a_length)
{
	struct recipe r = { .ipv6 = true, .payload = 700, .flags = PSH | ACK, .seq = 1000, .ack = 2000 };
	struct wire w = bake(&r), wanted;
	struct loaded l;

	load(&l, RESET_RULES);
	put16(w.bytes + ETH_HLEN + 4, 0);
	cr_assert_eq(leave_marked(&l, &w, MARK | MARK_RESET, 0), UNSPEC);
	r = turned_around(&r, false);
	wanted = bake(&r);
	put16(wanted.bytes + ETH_HLEN + 4, 0);
	cr_expect_eq(get32(w.bytes + ETH_HLEN + 48), 1700, "acknowledges %u", get32(w.bytes + ETH_HLEN + 48));
	expect_same(&w, &wanted, "without a length");
	unload(&l);
}

Test(packet, a_reset_for_the_peer_only_has_other_flags)
{
	struct loaded l;

	load(&l, RESET_RULES);
	for (int i = 0; i < 500; i++) {
		struct recipe r = random_recipe();
		struct wire w = bake(&r);

		cr_assert_eq(leave_marked(&l, &w, MARK | MARK_RESET_PEER, 0), UNSPEC);
		r.flags = RST | ACK;
		expect_packet(&w, &r, "for the peer");
	}
	unload(&l);
}

Test(packet, what_cannot_be_a_reset_is_dropped)
{
	struct recipe r = { .source = address("10.0.0.1"), .destination = address("10.0.0.2"), .payload = 30, .protocol = UDP };
	struct wire w = bake(&r);
	struct loaded l;

	load(&l, RESET_RULES);
	cr_expect_eq(leave_marked(&l, &w, MARK | MARK_RESET, 0), REDIRECT, "UDP");
	cr_expect_eq(leave_marked(&l, &w, MARK | MARK_RESET_PEER, 0), REDIRECT, "UDP");
	r.protocol = TCP;
	w = bake(&r);
	w.size = ETH_HLEN + 20 + 19;
	cr_expect_eq(leave_marked(&l, &w, MARK | MARK_RESET, 0), REDIRECT, "cut off");
	r.fragment = 5;
	w = bake(&r);
	cr_expect_eq(leave_marked(&l, &w, MARK | MARK_RESET, 0), REDIRECT, "a later fragment");
	unload(&l);
}

Test(packet, a_mark_that_means_nothing_is_taken_away)
{
	struct recipe r = random_recipe();
	struct wire w = bake(&r), before = w;
	struct loaded l;

	load(&l, RESET_RULES);
	for (uint32_t action = MARK_HOLD + 1; action < 0x1000; action += 17)
		if ((action & 0x7f) > MARK_HOLD)
			cr_expect_eq(leave_marked(&l, &w, MARK | action, 0), UNSPEC);
	cr_expect_eq(leave_marked(&l, &w, MARK, 0), UNSPEC);
	expect_same(&w, &before, "unknown action");
	unload(&l);
}

/* A copy goes out (on lo of this namespace), the original ends; the next packet is not taken for the copy. */
Test(packet, a_held_packet_goes_on_as_a_copy)
{
	struct recipe r = random_recipe();
	struct wire w = bake(&r), before = w;
	struct __sk_buff skb = { .mark = MARK | MARK_HOLD, .tstamp = 1 };
	struct loaded l;

	load(&l, RESET_RULES);
	cr_expect_eq(leave(&l, &w, &skb), REDIRECT);
	expect_same(&w, &before, "held");
	skb = (struct __sk_buff){ .tstamp = 5 };
	cr_expect_eq(leave(&l, &w, &skb), UNSPEC);
	cr_expect_eq(skb.tstamp, 5);
	unload(&l);
}

#define CORRUPT_RULES "version: 1\nrules:\n- { name: a, match: { user: 1000 }, fault: { corrupt: true, duplicate: 1% }, duration: 1h }\n"

/* One byte of the payload is another, the checksum is right, and nothing else has changed. Returns which byte. */
static size_t expect_corrupted(const struct wire *got, const struct wire *before, const struct recipe *r, const char *what)
{
	size_t checksum = ETH_HLEN + before->transport + (r->protocol == UDP ? 6 : 16), at = 0, differ = 0;
	size_t payload = before->size - r->padding - r->payload;

	cr_assert_eq(got->size, before->size, "%s", what);
	for (size_t i = 0; i < got->size; i++) {
		if (got->bytes[i] == before->bytes[i] || i == checksum || i == checksum + 1)
			continue;
		cr_assert(i >= payload && i < payload + r->payload, "CHAOSBPF_SEED=%lu %s: byte %zu is no payload", seed, what, i);
		at = i - payload;
		differ++;
	}
	cr_assert_eq(differ, 1, "CHAOSBPF_SEED=%lu %s: %zu bytes of %zu differ", seed, what, differ, r->payload);
	cr_assert_eq(transport_sum(got, r), 0xffff, "CHAOSBPF_SEED=%lu %s: the checksum is wrong", seed, what);
	return at;
}

Test(packet, one_byte_is_damaged_and_the_checksum_with_it)
{
	enum { SIZE = 7 };
	bool met[SIZE] = { false };
	struct loaded l;

	load(&l, CORRUPT_RULES);
	for (int i = 0; i < 1500; i++) {
		struct recipe r = random_recipe();
		struct wire w, before;
		size_t at;

		r.protocol = one_in(2) ? UDP : TCP;
		r.payload = i % 3 ? 1 + below(1200) : SIZE;
		r.padding = one_in(4) ? 1 + below(20) : 0;
		w = before = bake(&r);
		cr_assert_eq(leave_marked(&l, &w, MARK | MARK_CORRUPT, 0), UNSPEC);
		at = expect_corrupted(&w, &before, &r, "leaving");
		if (r.payload == SIZE)
			met[at] = true;
	}
	for (int i = 0; i < SIZE; i++)
		cr_expect(met[i], "byte %d of %d is never damaged", i, SIZE);
	unload(&l);
}

Test(packet, what_has_no_payload_is_not_damaged)
{
	struct recipe r = { .source = address("10.0.0.1"), .destination = address("10.0.0.2"), .flags = ACK, .padding = 6 };
	struct wire w = bake(&r), before = w;
	struct loaded l;

	load(&l, CORRUPT_RULES);
	cr_expect_eq(leave_marked(&l, &w, MARK | MARK_CORRUPT, 0), UNSPEC);
	expect_same(&w, &before, "no payload");
	r.payload = 100;
	r.fragment = 5;
	w = before = bake(&r);
	cr_expect_eq(leave_marked(&l, &w, MARK | MARK_CORRUPT, 0), UNSPEC);
	expect_same(&w, &before, "a later fragment");
	unload(&l);
}

/* UDP over IPv4 may do without: no checksum is made up. */
Test(packet, no_checksum_stays_none)
{
	struct recipe r = { .source = address("10.0.0.1"), .destination = address("10.0.0.2"), .protocol = UDP, .payload = 9 };
	struct wire w = bake(&r);
	struct loaded l;

	load(&l, CORRUPT_RULES);
	put16(w.bytes + ETH_HLEN + w.transport + 6, 0);
	cr_expect_eq(leave_marked(&l, &w, MARK | MARK_CORRUPT, 0), UNSPEC);
	cr_expect_eq(get16(w.bytes + ETH_HLEN + w.transport + 6), 0);
	unload(&l);
}

/* The copy and the original are alike, and the original goes on. */
Test(packet, a_duplicated_packet_goes_on_itself)
{
	struct recipe r = random_recipe();
	struct wire w, before;
	struct loaded l;

	load(&l, CORRUPT_RULES);
	r.payload = 50;
	w = before = bake(&r);
	cr_expect_eq(leave_marked(&l, &w, MARK | MARK_DUPLICATE, 0), UNSPEC);
	expect_same(&w, &before, "duplicated");
	cr_expect_eq(leave_marked(&l, &w, MARK | MARK_DUPLICATE | MARK_CORRUPT, 0), UNSPEC);
	expect_corrupted(&w, &before, &r, "duplicated and damaged");
	w = before;
	cr_expect_eq(leave_marked(&l, &w, MARK | MARK_DUPLICATE | MARK_DROP, 0), REDIRECT);
	unload(&l);
}

/* ---- another generation, or none ------------------------------------------------------------------------------------ */

Test(packet, nothing_happens_unless_armed)
{
	static const uint32_t generations[] = { 0, GENERATION - 1, GENERATION + 1, UINT32_MAX };
	struct loaded l;

	load(&l, RESET_RULES);
	for (size_t i = 0; i < COUNT(generations); i++) {
		cr_assert_eq(engine_arm(l.engine.control_fd, generations[i]), 0);
		for (uint32_t action = MARK_DROP; action <= MARK_HOLD; action++) {
			struct recipe r = random_recipe();
			struct wire w = bake(&r), before = w;
			struct __sk_buff skb = { .mark = MARK | action };

			cr_expect_eq(leave(&l, &w, &skb), UNSPEC, "generation %u", generations[i]);
			expect_same(&w, &before, "not armed");
			cr_expect_eq(run_on(l.engine.ingress_fd, w.bytes, w.size, NULL, 1), UNSPEC);
			expect_same(&w, &before, "not armed, arriving");
		}
	}
	unload(&l);
}

/* They see a socket of BPF_PROG_TEST_RUN's own here, which is none of an application: it must pass, armed or not. */
Test(packet, the_socket_hooks_let_pass_what_is_no_application_s)
{
	struct loaded l;

	load(&l, "version: 1\nrules:\n- { name: a, match: { everything: true }, fault: { drop: true }, duration: 1h }\n");
	for (int armed = 1; armed >= 0; armed--) {
		cr_assert_eq(engine_arm(l.engine.control_fd, armed ? GENERATION : 0), 0);
		for (int i = 0; i < 100; i++) {
			struct recipe r = random_recipe();
			struct wire w = bake(&r);

			cr_assert_eq(run_on(bpf_program__fd(l.engine.skel->progs.chaos_egress), w.bytes, w.size, NULL, 1), PASS);
			cr_assert_eq(run_on(bpf_program__fd(l.engine.skel->progs.chaos_ingress), w.bytes, w.size, NULL, 1), PASS);
		}
	}
	cr_expect_eq(stats_of_rule(&l, 0).seen, 0);
	unload(&l);
}

/* ---- what arrives: a real connection, over lo of this namespace ------------------------------------------------------ */

struct connection {
	int client, server, listener;
	struct sockaddr_in client_address, server_address;
};

static struct connection connect_over_lo(void)
{
	struct connection c = { .server_address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } } };
	socklen_t size = sizeof(c.server_address);

	c.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(c.listener, (void *)&c.server_address, size), 0);
	cr_assert_eq(listen(c.listener, 1), 0);
	cr_assert_eq(getsockname(c.listener, (void *)&c.server_address, &size), 0);
	c.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(c.client, (void *)&c.server_address, size), 0, "%s", strerror(errno));
	size = sizeof(c.client_address);
	cr_assert_eq(getsockname(c.client, (void *)&c.client_address, &size), 0);
	c.server = accept(c.listener, NULL, NULL);
	cr_assert_geq(c.server, 0);
	return c;
}

static void disconnect(const struct connection *c)
{
	close(c->client);
	close(c->server);
	close(c->listener);
}

/* What the kernel keeps with a socket, as if the owner hooks had been there. */
static void own(const struct loaded *l, int fd, enum chaos_side side)
{
	struct chaos_sock s = { .known = 1, .side = side, .owner = { .pid = 77, .uid = 1000, .comm = "owner" } };

	cr_assert_eq(bpf_map_update_elem(l->engine.sock_fd, &fd, &s, BPF_ANY), 0, "%s", strerror(errno));
}

static struct recipe segment(const struct sockaddr_in *from, const struct sockaddr_in *to)
{
	struct recipe r = {
		.source = address("127.0.0.1"),
		.destination = address("127.0.0.1"),
		.source_port = ntohs(from->sin_port),
		.destination_port = ntohs(to->sin_port),
		.seq = 1000,
		.ack = 2000,
		.flags = PSH | ACK,
		.payload = 100,
	};

	return r;
}

static int arrive(const struct loaded *l, struct wire *w)
{
	return run_on(l->engine.ingress_fd, w->bytes, w->size, NULL, 1);
}

static struct wire arrives_as(const struct loaded *l, const struct recipe *r)
{
	struct wire w = bake(r);

	cr_assert_eq(arrive(l, &w), UNSPEC);
	return w;
}

static void expect_reset(const struct loaded *l, struct recipe r, bool reset, const char *what)
{
	struct wire w = arrives_as(l, &r);

	if (reset)
		r.flags = RST | ACK;
	expect_packet(&w, &r, what);
}

Test(packet, a_reply_that_arrives_becomes_a_reset)
{
	struct connection c = connect_over_lo();
	struct recipe reply = segment(&c.server_address, &c.client_address), other;
	struct chaos_stats s;
	struct loaded l;

	load(&l, RESET_RULES);
	expect_reset(&l, reply, false, "nobody's");
	own(&l, c.client, CHAOS_SIDE_CLIENT);
	other = reply;
	other.payload = 0;
	expect_reset(&l, other, false, "an acknowledgement");
	other = reply;
	other.flags = SYN | ACK;
	expect_reset(&l, other, false, "with SYN");
	other = reply;
	other.flags = RST;
	expect_reset(&l, other, false, "a reset already");
	other = reply;
	other.source_port++;
	expect_reset(&l, other, false, "another connection");
	cr_expect_eq(stats_of_rule(&l, 0).matched, 0);
	expect_reset(&l, reply, true, "the reply");
	expect_reset(&l, reply, true, "again: the connection is reset for good");
	s = stats_of_rule(&l, 0);
	cr_expect(s.matched == 1 && s.injected == 1 && s.faults[CHAOS_RESET] == 1 && s.packets == 2);
	disconnect(&c);
	unload(&l);
}

/* A verdict is kept with its socket, and there it is still when other rules are loaded. */
Test(packet, what_another_load_decided_is_decided_anew)
{
	static const struct {
		const char *what;
		struct chaos_verdict before;
		uint64_t injected, packets;
	} cases[] = {
		{ "no rule could ever match", { .generation = GENERATION - 1, .rule = CHAOS_NO_RULE, .valid_until_ns = ~0ULL }, 1, 1 },
		{ "it was reset already", { .generation = GENERATION - 1, .connection = 55, .valid_until_ns = ~0ULL,
					    .decided = 1 << CHAOS_RESET, .inject = 1 << CHAOS_RESET }, 1, 1 },
		{ "this load has decided", { .generation = GENERATION, .rule = CHAOS_NO_RULE, .valid_until_ns = ~0ULL }, 0, 0 },
		{ "this load has reset it", { .generation = GENERATION, .connection = 1, .valid_until_ns = ~0ULL,
					      .decided = 1 << CHAOS_RESET, .inject = 1 << CHAOS_RESET }, 0, 1 },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct chaos_sock kept = { .known = 1, .side = CHAOS_SIDE_CLIENT, .owner = { .pid = 77, .uid = 1000 },
					   .verdict = cases[i].before };
		struct connection c = connect_over_lo();
		struct chaos_stats s;
		struct loaded l;

		load(&l, RESET_RULES);
		cr_assert_eq(bpf_map_update_elem(l.engine.sock_fd, &c.client, &kept, BPF_ANY), 0);
		expect_reset(&l, segment(&c.server_address, &c.client_address), cases[i].packets, cases[i].what);
		s = stats_of_rule(&l, 0);
		cr_expect(s.matched == cases[i].injected && s.injected == cases[i].injected && s.packets == cases[i].packets,
			  "%s: %llu matched, %llu injected, %llu packets", cases[i].what, s.matched, s.injected, s.packets);
		disconnect(&c);
		unload(&l);
	}
}

Test(packet, who_is_not_named_gets_its_reply)
{
	struct connection c = connect_over_lo();
	struct loaded l;

	load(&l, "version: 1\nrules:\n- { name: a, match: { user: 1001 }, fault: { reset: true }, duration: 1h }\n");
	own(&l, c.client, CHAOS_SIDE_CLIENT);
	expect_reset(&l, segment(&c.server_address, &c.client_address), false, "a neighbour's");
	cr_expect_eq(stats_of_rule(&l, 0).matched, 0);
	disconnect(&c);
	unload(&l);
}

/* A server that resets both ways does it when it replies; one that resets requests does it here. */
Test(packet, at_a_server_the_direction_decides)
{
	static const struct {
		const char *direction;
		bool reset;
	} cases[] = { { "both", false }, { "request", true }, { "response", false } };

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct connection c = connect_over_lo();
		struct loaded l;
		char source[256];

		snprintf(source, sizeof(source), "version: 1\nrules:\n- { name: a, match: { user: 1000, side: server, direction: %s }, "
						 "fault: { reset: true }, duration: 1h }\n", cases[i].direction);
		load(&l, source);
		own(&l, c.server, CHAOS_SIDE_SERVER);
		expect_reset(&l, segment(&c.client_address, &c.server_address), cases[i].reset, cases[i].direction);
		disconnect(&c);
		unload(&l);
	}
}

Test(packet, max_hits_counts_connections_that_are_reset)
{
	struct loaded l;
	struct chaos_stats s;

	load(&l, "version: 1\nrules:\n- { name: a, match: { user: 1000 }, fault: { reset: true }, duration: 1h, max-hits: 3 }\n");
	for (int i = 0; i < 5; i++) {
		struct connection c = connect_over_lo();

		own(&l, c.client, CHAOS_SIDE_CLIENT);
		expect_reset(&l, segment(&c.server_address, &c.client_address), i < 3, i < 3 ? "one of three" : "the rule is finished");
		disconnect(&c);
	}
	s = stats_of_rule(&l, 0);
	cr_expect(s.injected == 3 && s.matched == 3);
	unload(&l);
}

Test(packet, a_reply_that_arrives_is_damaged)
{
	static const struct {
		const char *more;
		bool hit;
	} cases[] = { { "", true }, { ", direction: response", true }, { ", direction: request", false } };

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct connection c = connect_over_lo();
		struct recipe r = segment(&c.server_address, &c.client_address);
		struct wire w = bake(&r), before = w;
		struct chaos_stats s;
		struct loaded l;
		char source[384];

		/* The second rule is why the program is there: the first of the third case needs none for what arrives. */
		snprintf(source, sizeof(source), "version: 1\nrules:\n"
						 "- { name: a, match: { user: 1000%s }, fault: { corrupt: true }, duration: 1h }\n"
						 "- { name: b, match: { user: 1001 }, fault: { corrupt: true }, duration: 1h }\n", cases[i].more);
		load(&l, source);
		cr_assert_eq(arrive(&l, &w), UNSPEC);
		expect_same(&w, &before, "nobody's");
		own(&l, c.client, CHAOS_SIDE_CLIENT);
		cr_assert_eq(arrive(&l, &w), UNSPEC);
		if (cases[i].hit)
			expect_corrupted(&w, &before, &r, "the reply");
		else
			expect_same(&w, &before, "the other direction");
		s = stats_of_rule(&l, 0);
		cr_expect(s.matched == cases[i].hit && s.injected == cases[i].hit && s.faults[CHAOS_CORRUPT] == cases[i].hit &&
			  s.packets == cases[i].hit);
		disconnect(&c);
		unload(&l);
	}
}

struct heard {
	struct chaos_event event;
	int count;
};

static int hear(void *arg, void *data, size_t size)
{
	struct heard *heard = arg;

	cr_assert_eq(size, sizeof(heard->event));
	heard->event = *(struct chaos_event *)data;
	heard->count++;
	return 0;
}

Test(packet, what_was_done_is_told)
{
	struct connection c = connect_over_lo();
	struct heard heard = { 0 };
	const struct chaos_event *e = &heard.event;
	struct in6_addr lo = address("127.0.0.1");
	struct ring_buffer *ring;
	struct loaded l;

	load(&l, RESET_RULES);
	own(&l, c.client, CHAOS_SIDE_CLIENT);
	expect_reset(&l, segment(&c.server_address, &c.client_address), true, "the reply");
	ring = ring_buffer__new(engine_map(&l.engine, "chaos_events"), hear, &heard, NULL);
	cr_assert_not_null(ring);
	ring_buffer__consume(ring);
	ring_buffer__free(ring);
	cr_assert_eq(heard.count, 1);
	cr_expect(e->kind == CHAOS_EVENT_FAULT && e->fault == CHAOS_RESET && e->rule == 0 && e->generation == GENERATION);
	cr_expect(e->pid == 77 && e->uid == 1000 && e->connection == 1 && e->protocol == CHAOS_TCP && e->side == CHAOS_SIDE_CLIENT);
	cr_expect_str_eq(e->comm, "owner");
	cr_expect(memcmp(e->peer, &lo, 16) == 0 && memcmp(e->local, &lo, 16) == 0);
	cr_expect(e->peer_port == ntohs(c.server_address.sin_port) && e->local_port == ntohs(c.client_address.sin_port));
	cr_expect(e->time_ns <= boot_now() && e->time_ns + 60000000000ULL > boot_now());
	disconnect(&c);
	unload(&l);
}

/* ---- all faults in one load ------------------------------------------------------------------------------------------ */

/* As far as the language lets them stand together; a kernel's verifier has to follow all of it. */
Test(packet, every_fault_at_once_can_be_loaded)
{
	struct loaded l;

	load(&l, "version: 1\nrules:\n"
		 "- { name: a, match: { user: 1000 }, fault: { drop: 1%..5% over 1m, delay: 1s..2s over 1m, jitter: 1s, duplicate: 5%, "
		 "corrupt: 2%, reorder: 10%, rate: 1mbit, reset: true }, duration: 1h, percent: 0..50 over 1m }\n"
		 "- { name: b, match: { user: 1000, side: server }, fault: { drop: { burst: { loss: 1%, length: 3 } }, tokens: 5/s }, "
		 "duration: 1h, max-hits: 10, max-rate: 5/s }\n"
		 "- { name: c, match: { user: 1000, process: \"a*\" }, fault: { drop: { every: 10 }, delay: 1s }, duration: 1h, "
		 "per: packet }\n"
		 "- { name: d, match: { user: 1000 }, fault: { drop: true }, duration: 1h, per: request }\n"
		 "- { name: e, match: { user: 1000 }, fault: { accept-silence: true }, duration: 1h }\n"
		 "- { name: f, match: { user: 1000 }, fault: { tls-stall: true }, duration: 1h }\n"
		 "- { name: g, match: { user: 1000 }, fault: { refuse: denied }, duration: 1h }\n");
	for (int i = 0; i < 100; i++) {
		struct recipe r = random_recipe();
		struct wire w = bake(&r);

		cr_assert_eq(run_on(bpf_program__fd(l.engine.skel->progs.chaos_egress), w.bytes, w.size, NULL, 1), PASS);
	}
	if (getenv("CHAOSBPF_VERIFIED")) {
		struct bpf_program *prog;

		bpf_object__for_each_program(prog, l.engine.skel->obj) {
			struct bpf_prog_info info = { 0 };
			uint32_t size = sizeof(info);

			if (bpf_program__fd(prog) >= 0 && !bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &size))
				printf("%s: %u instructions, %u verified\n", bpf_program__name(prog), info.xlated_prog_len / 8, info.verified_insns);
		}
	}
	unload(&l);
}
