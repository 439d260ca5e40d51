/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Network namespaces and their devices: finding them, and preparing a device for faults.
 *
 * A device is prepared with up to three things: our tc program on the way out, our tc program on the way in (TCX where
 * the kernel has it, clsact below), and an fq queue that honours skb->tstamp. What was there before is written to the
 * journal (see below) before it is touched, and comes back exactly with device_restore_all(). Nothing here knows rules.
 *
 * Packets that arrive wait in a device of our own, one for each namespace (see ifb.h), which device_restore_all() deletes.
 */
#ifndef USER_DEVICE_H
#define USER_DEVICE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <net/if.h>

#include "user/base/error.h"

/* A network namespace of this machine, held open. */
struct netns {
	uint64_t inode; /* of the nsfs file: what /proc/PID/ns/net shows; its name while it lives */
	int fd;         /* open on it, close-on-exec */
	char name[64];  /* how a person would call it: "host", "ns1" (ip netns), "pid 4242" */
};

struct netns_list {
	struct netns *entries; /* [0] is the namespace that the caller runs in */
	size_t count;
};

/*
 * Finds every network namespace of the machine: those of all processes (their threads too where that is cheap), those
 * bound to files (/run/netns, other nsfs mounts of /proc/self/mountinfo). Free with netns_list_free().
 */
int netns_list(struct netns_list *list, struct error *err);
void netns_list_free(struct netns_list *list);

/* Opens the namespace of a process (a thread group id). -ESRCH when it is gone. */
int netns_of_pid(uint32_t pid, struct netns *netns, struct error *err);
void netns_close(struct netns *netns);

/*
 * Runs fn(arg) with the calling thread inside the namespace and returns its result; comes back on every way out. If it
 * cannot come back the process aborts: going on in a stranger's namespace would be worse.
 */
int netns_run(const struct netns *netns, int (*fn)(void *arg), void *arg);

struct device {
	unsigned int ifindex;
	char name[IF_NAMESIZE];
	unsigned int flags;  /* IFF_* */
	unsigned short type; /* ARPHRD_* */
	unsigned int tx_queues;
	bool has_address; /* some IPv4 or IPv6 address is on it (a link-local one counts) */
	bool is_our_ifb;  /* see ifb.h */
};

/* Devices of one namespace. The array is the caller's, to be freed with free(). */
int device_list(const struct netns *netns, struct device **devices, size_t *count, struct error *err);

/* The device by which packets to `address` (IPv4 mapped) leave the namespace; 0 when there is no route. */
int device_for_address(const struct netns *netns, const struct in6_addr *address, unsigned int *ifindex,
		       struct error *err);

/* What a device is to be prepared with. */
struct device_wish {
	int egress_prog_fd;  /* our tc program for packets that leave, or -1 */
	int ingress_prog_fd; /* our tc program for packets that arrive, or -1 */
	int answer_prog_fd;  /* the one before it, for answers of HTTP, or -1 */
	int pick_prog_fd; /* with that one: the program behind it which picks out what is sent through the ifb, or -1 */
	unsigned int ifb; /* index of our ifb in that namespace, or 0: nothing that arrives is to wait */
	bool fq;          /* replace the root queue by fq */
	uint64_t fq_horizon_ns; /* longest delay with its margin */
	uint32_t generation;    /* of the load: goes into clsact filter handles, so that two loads live side by side */
	const char *pin_dir;    /* bpffs directory for TCX links, or NULL: links stay open in *result only */
};

/* What was done. Fields not used are 0 or -1. */
struct device_result {
	unsigned int flags; /* enum chaos_device_flag: what now works there */
	/* TCX links, the caller's to close; -1 with clsact. */
	int egress_link_fd, ingress_link_fd, answer_link_fd;
};

/*
 * Prepares one device. All or nothing for this device: on failure what was done to it is undone. Says no with
 * EXIT_CANNOT and the reason when the root queue cannot be replaced and brought back (a classful tree with classes), or
 * when fq is not to be had on this kernel. A device that vanishes meanwhile is -ENODEV.
 */
int device_prepare(const struct netns *netns, const struct device *device, const struct device_wish *wish,
		   struct device_result *result, struct error *err);

/* Would device_prepare() with `fq` be possible? 0, or the negative errno and reason; changes nothing. */
int device_can_fq(const struct netns *netns, const struct device *device, struct error *err);

/* The same for `ifb`: not where others look at what arrives behind our program, since they would not see it any more. */
int device_can_ifb(const struct netns *netns, const struct device *device, struct error *err);

/*
 * Makes our ifb in the namespace, or finds it there, and prepares it: with fq, and with egress_prog_fd of the wish, which
 * stamps packets there. *link_fd: its TCX link, the caller's to close, or -1 with clsact.
 */
int device_prepare_ifb(const struct netns *netns, const struct device_wish *wish, unsigned int *ifindex, int *link_fd,
		       struct error *err);

/* Packets waiting in our fq on that device. 0 when it is not ours. */
int device_backlog(const struct netns *netns, unsigned int ifindex, uint32_t *packets, struct error *err);

/* Takes our clsact filters of one generation off again, 0: of any generation. TCX links go with their pins. */
int device_detach(const struct netns *netns, uint32_t generation, struct error *err);

/*
 * Puts back everything that is ours in every namespace: finds our qdiscs by handle and our filters by name, with or
 * without the journal; with it, explicit qdiscs come back with their parameters. Works when called twice, with a broken
 * or missing journal, and goes on after a failure. `keep_generation`: another load lives on, so its filters stay and
 * so do all queues, and records of what they replaced (0: none).
 *
 * TCX links are not touched: those go with their pins and owners. Call this before they do. The kernel takes a link off
 * with the lock of all networking held and waits for an RCU grace period (some 10 ms) each time, and so would this.
 */
int device_restore_all(const char *journal, uint32_t keep_generation, struct error *err);

/* Where device_prepare() writes what was there before; see device_journal_open(). */
int device_journal_open(const char *path, struct error *err);
void device_journal_close(void);

/* Anything of ours on any device? For `status`, `doctor` and tests: counts qdiscs, and filters with TCX links. */
int device_count_ours(size_t *qdiscs, size_t *filters, struct error *err);

#endif
