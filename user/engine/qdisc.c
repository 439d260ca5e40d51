// SPDX-License-Identifier: GPL-2.0-only
#include "user/engine/qdisc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/gen_stats.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Enough for the packets of a held request and everything behind it; the default of 100 a flow would be loss. */
#define FQ_LIMIT       100000
#define FQ_FLOW_LIMIT  20000
#define FQ_BUCKETS_LOG 12

/* What the kernel changes a length of 0 to when a queue is attached (DEFAULT_TX_QUEUE_LEN). */
#define DEFAULT_TX_QUEUE_LEN 1000

/* The kernel's unit of packet scheduler time: 64 ns (PSCHED_SHIFT). */
#define TICK_NS 64ULL

/* Kinds whose dump can be fed back; found out by trying each on every kernel, see tests/bpf/test_device.c. */
static const char *const restorable[] = {
	"noqueue", "pfifo", "bfifo", "pfifo_fast", "fq", "fq_codel", "codel", "cake", "sfq", "tbf", "netem",
};

/* Reading */

static uint32_t waiting_packets(const struct nlattr *stats)
{
	const struct nlattr *attr;
	struct gnet_stats_queue queue;

	mnl_attr_for_each_nested(attr, stats)
	{
		if (mnl_attr_get_type(attr) != TCA_STATS_QUEUE || mnl_attr_get_payload_len(attr) < sizeof(queue))
			continue;
		memcpy(&queue, mnl_attr_get_payload(attr), sizeof(queue));
		return queue.qlen;
	}
	return 0;
}

static void read_attr(struct qdisc *qdisc, const struct nlattr *attr)
{
	switch (mnl_attr_get_type(attr)) {
	case TCA_KIND:
		snprintf(qdisc->kind, sizeof(qdisc->kind), "%.*s", (int)mnl_attr_get_payload_len(attr),
			 mnl_attr_get_str(attr));
		break;
	case TCA_OPTIONS:
		qdisc->options_len = mnl_attr_get_payload_len(attr);
		if (qdisc->options_len <= sizeof(qdisc->options))
			memcpy(qdisc->options, mnl_attr_get_payload(attr), qdisc->options_len);
		else
			qdisc->incomplete = true;
		break;
	case TCA_STATS2:
		qdisc->packets = waiting_packets(attr);
		break;
	case TCA_HW_OFFLOAD:
		if (mnl_attr_get_u8(attr) && qdisc->handle)
			qdisc->incomplete = true;
		break;
	case TCA_STAB: /* the table itself is not dumped */
		qdisc->incomplete = true;
		break;
	}
}

static void read_qdisc(const struct nlmsghdr *message, struct qdisc *qdisc)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	const struct nlattr *attr;

	memset(qdisc, 0, sizeof(*qdisc));
	qdisc->ifindex = tc->tcm_ifindex;
	qdisc->handle = tc->tcm_handle;
	qdisc->parent = tc->tcm_parent;
	mnl_attr_for_each(attr, message, sizeof(*tc)) read_attr(qdisc, attr);
	if (qdisc->options_len > sizeof(qdisc->options))
		qdisc->options_len = 0;
}

int qdisc_list_get(struct netlink *nl, struct qdisc_list *list)
{
	const struct nlmsghdr *message = NULL;
	size_t count = 0;
	void *tc;
	int ret;

	memset(list, 0, sizeof(*list));
	netlink_begin(nl, RTM_GETQDISC, NLM_F_DUMP, sizeof(struct tcmsg), &tc);
	ret = netlink_talk(nl);
	if (ret)
		return ret;
	while ((message = netlink_next(nl, message)))
		count++;
	list->entries = calloc(count + 1, sizeof(*list->entries));
	if (!list->entries)
		return -ENOMEM;
	while ((message = netlink_next(nl, message)))
		if (message->nlmsg_type == RTM_NEWQDISC)
			read_qdisc(message, &list->entries[list->count++]);
	return 0;
}

void qdisc_list_free(struct qdisc_list *list)
{
	free(list->entries);
	memset(list, 0, sizeof(*list));
}

const struct qdisc *qdisc_root(const struct qdisc_list *list, unsigned int ifindex)
{
	size_t i;

	for (i = 0; i < list->count; i++)
		if (list->entries[i].ifindex == ifindex && list->entries[i].parent == TC_H_ROOT)
			return &list->entries[i];
	return NULL;
}

bool qdisc_is_ours(const struct qdisc *qdisc)
{
	uint32_t major = TC_H_MAJ(qdisc->handle), first = TC_H_MAJ(QDISC_OUR_ROOT);

	if (qdisc->parent == TC_H_ROOT)
		return major == first && (!strcmp(qdisc->kind, "fq") || !strcmp(qdisc->kind, "mq"));
	return TC_H_MAJ(qdisc->parent) == first && !strcmp(qdisc->kind, "fq") && major > first &&
	       major <= first + (QDISC_MAX_CHILDREN << 16);
}

static bool is_child(const struct qdisc *qdisc, const struct qdisc *root)
{
	return qdisc->ifindex == root->ifindex && qdisc->parent != TC_H_ROOT && qdisc->parent != TC_H_INGRESS &&
	       TC_H_MAJ(qdisc->parent) == TC_H_MAJ(root->handle);
}

int qdisc_tree_get(const struct qdisc_list *list, unsigned int ifindex, unsigned int tx_queue_len,
		   struct qdisc_tree *tree)
{
	const struct qdisc *root = qdisc_root(list, ifindex);
	size_t i;

	memset(tree, 0, sizeof(*tree));
	tree->root.ifindex = ifindex;
	tree->root.parent = TC_H_ROOT;
	tree->tx_queue_len = tx_queue_len;
	if (!root)
		return 0;
	tree->root = *root;
	if (strcmp(root->kind, "mq"))
		return 0;
	tree->children = calloc(list->count, sizeof(*tree->children));
	if (!tree->children)
		return -ENOMEM;
	for (i = 0; i < list->count; i++)
		if (is_child(&list->entries[i], root))
			tree->children[tree->children_count++] = list->entries[i];
	return 0;
}

void qdisc_tree_free(struct qdisc_tree *tree)
{
	free(tree->children);
	memset(tree, 0, sizeof(*tree));
}

/* An attribute among the options, as far as it is there and well formed. */
static struct nlattr *find_option(void *options, size_t len, uint16_t type)
{
	struct nlattr *attr = options;
	char *end = (char *)options + len;

	for (; mnl_attr_ok(attr, end - (char *)attr); attr = mnl_attr_next(attr))
		if (mnl_attr_get_type(attr) == type)
			return attr;
	return NULL;
}

/* Judging */

static bool has_children(const struct qdisc_list *list, const struct qdisc *root)
{
	size_t i;

	for (i = 0; i < list->count; i++)
		if (is_child(&list->entries[i], root))
			return true;
	return false;
}

static bool kind_restorable(const char *kind)
{
	size_t i;

	for (i = 0; i < sizeof(restorable) / sizeof(*restorable); i++)
		if (!strcmp(kind, restorable[i]))
			return true;
	return false;
}

/* Filters on a queue go with it. Those of clsact hang elsewhere. */
static int count_filters(struct netlink *nl, const struct qdisc *qdisc, size_t *count)
{
	const struct nlmsghdr *message = NULL;
	struct tcmsg *tc;
	int ret;

	*count = 0;
	netlink_begin(nl, RTM_GETTFILTER, NLM_F_DUMP, sizeof(*tc), (void **)&tc);
	tc->tcm_ifindex = qdisc->ifindex;
	tc->tcm_parent = qdisc->handle; /* 0 means the root queue, which is the one to have that handle */
	ret = netlink_talk(nl);
	while (!ret && (message = netlink_next(nl, message)))
		*count += message->nlmsg_type == RTM_NEWTFILTER;
	return ret;
}

/* netem's tables of distributions are not dumped, so with jitter nobody can tell whether there was one. */
static bool netem_has_jitter(const struct qdisc *qdisc)
{
	struct tc_netem_qopt netem;
	struct tc_netem_slot slot;
	const struct nlattr *attr;

	if (qdisc->options_len < sizeof(netem))
		return true;
	memcpy(&netem, qdisc->options, sizeof(netem));
	attr = find_option((void *)(qdisc->options + sizeof(netem)), qdisc->options_len - sizeof(netem),
			   TCA_NETEM_SLOT);
	if (!attr || mnl_attr_get_payload_len(attr) < sizeof(slot))
		return netem.jitter != 0;
	memcpy(&slot, mnl_attr_get_payload(attr), sizeof(slot));
	return netem.jitter || slot.dist_jitter;
}

static int judge_kind(const struct qdisc_list *others, const struct qdisc *qdisc, char *why, size_t size)
{
	if (!kind_restorable(qdisc->kind)) {
		snprintf(why, size, "a queue of kind '%s'", qdisc->kind);
	} else if (qdisc->incomplete) {
		snprintf(why, size, "a queue of kind '%s' with a size table or hardware offload", qdisc->kind);
	} else if (has_children(others, qdisc)) {
		snprintf(why, size, "a queue of kind '%s' with queues below it", qdisc->kind);
	} else if (!strcmp(qdisc->kind, "netem") && netem_has_jitter(qdisc)) {
		snprintf(why, size, "a queue of kind 'netem' with jitter, whose distribution the kernel does not tell");
	} else {
		return 0;
	}
	return -EOPNOTSUPP;
}

static int judge_filters(struct netlink *nl, const struct qdisc *qdisc, char *why, size_t size)
{
	size_t filters;
	int ret;

	ret = count_filters(nl, qdisc, &filters);
	if (ret) {
		snprintf(why, size, "filters that cannot be listed (%s)", netlink_reason(nl, ret));
	} else if (filters) {
		snprintf(why, size, "a queue of kind '%s' with filters on it", qdisc->kind);
		ret = -EOPNOTSUPP;
	}
	return ret;
}

/* What the kernel chose by itself (handle 0) it will choose again. */
static int judge_children(struct netlink *nl, const struct qdisc_list *others, const struct qdisc_tree *tree, char *why,
			  size_t size)
{
	const struct qdisc *child;
	int ret = 0;
	size_t i;

	if (tree->children_count > QDISC_MAX_CHILDREN) {
		snprintf(why, size, "%zu transmit queues, more than %d", tree->children_count, QDISC_MAX_CHILDREN);
		return -EOPNOTSUPP;
	}
	for (i = 0; !ret && i < tree->children_count; i++) {
		child = &tree->children[i];
		if (child->handle)
			ret = judge_kind(others, child, why, size) ?: judge_filters(nl, child, why, size);
	}
	return ret;
}

/* pfifo_fast is as long as the device's queue, and cannot be made where that has been set to 0. */
static int judge_length(const struct qdisc_tree *tree, char *why, size_t size)
{
	bool pfifo_fast = !strcmp(tree->root.kind, "pfifo_fast");
	size_t i;

	for (i = 0; i < tree->children_count; i++)
		pfifo_fast |= !strcmp(tree->children[i].kind, "pfifo_fast");
	if (tree->tx_queue_len || !pfifo_fast)
		return 0;
	snprintf(why, size, "a queue of kind 'pfifo_fast' and a queue length (txqueuelen) of 0");
	return -EOPNOTSUPP;
}

int qdisc_can_replace(struct netlink *nl, const struct qdisc_list *others, const struct qdisc_tree *tree, char *why,
		      size_t why_size)
{
	const struct qdisc *root = &tree->root;
	int ret;

	if (!root->kind[0] || qdisc_is_ours(root))
		return 0;
	ret = judge_length(tree, why, why_size);
	if (ret)
		return ret;
	if (!strcmp(root->kind, "mq"))
		ret = judge_children(nl, others, tree, why, why_size);
	else if (root->handle)
		ret = judge_kind(others, root, why, why_size);
	return ret ?: judge_filters(nl, root, why, why_size);
}

/* Writing */

static struct nlmsghdr *begin_new(struct netlink *nl, uint16_t flags, unsigned int ifindex, uint32_t parent,
				  uint32_t handle, const char *kind)
{
	struct nlmsghdr *request;
	struct tcmsg *tc;

	request = netlink_begin(nl, RTM_NEWQDISC, flags, sizeof(*tc), (void **)&tc);
	tc->tcm_ifindex = ifindex;
	tc->tcm_parent = parent;
	tc->tcm_handle = handle;
	mnl_attr_put_strz(request, TCA_KIND, kind);
	return request;
}

static int put_fq(struct netlink *nl, unsigned int ifindex, uint32_t parent, uint32_t handle, uint32_t horizon_us)
{
	struct nlmsghdr *request;
	struct nlattr *options;

	request = begin_new(nl, NLM_F_CREATE | NLM_F_REPLACE, ifindex, parent, handle, "fq");
	options = mnl_attr_nest_start(request, TCA_OPTIONS);
	mnl_attr_put_u32(request, TCA_FQ_PLIMIT, FQ_LIMIT);
	mnl_attr_put_u32(request, TCA_FQ_FLOW_PLIMIT, FQ_FLOW_LIMIT);
	mnl_attr_put_u32(request, TCA_FQ_BUCKETS_LOG, FQ_BUCKETS_LOG);
	/* No pacing: TCP's rate would come from a round trip time that our own delay has made long. */
	mnl_attr_put_u32(request, TCA_FQ_RATE_ENABLE, 0);
	/* Beyond the horizon drop, never cap: a delay that is silently shorter is a wrong experiment. */
	mnl_attr_put_u32(request, TCA_FQ_HORIZON, horizon_us);
	mnl_attr_put_u8(request, TCA_FQ_HORIZON_DROP, 1);
	mnl_attr_nest_end(request, options);
	return netlink_talk(nl);
}

int qdisc_replace(struct netlink *nl, unsigned int ifindex, const struct qdisc_tree *before, uint32_t horizon_us)
{
	const uint32_t root = QDISC_OUR_ROOT;
	uint32_t queue;
	size_t i;
	int ret;

	if (strcmp(before->root.kind, "mq"))
		return put_fq(nl, ifindex, TC_H_ROOT, root, horizon_us);
	begin_new(nl, NLM_F_CREATE | NLM_F_REPLACE, ifindex, TC_H_ROOT, root, "mq");
	ret = netlink_talk(nl);
	for (i = 0; !ret && i < before->children_count; i++) {
		queue = TC_H_MIN(before->children[i].parent);
		ret = put_fq(nl, ifindex, root | queue, root + (queue << 16), horizon_us);
	}
	return ret;
}

static uint32_t horizon_of(const struct qdisc *fq)
{
	struct nlattr *attr = find_option((void *)fq->options, fq->options_len, TCA_FQ_HORIZON);

	return attr ? mnl_attr_get_u32(attr) : 0;
}

int qdisc_renew(struct netlink *nl, const struct qdisc_list *list, unsigned int ifindex, uint32_t horizon_us)
{
	const struct qdisc *root = qdisc_root(list, ifindex), *qdisc;
	uint32_t handle;
	int ret = 0;
	size_t i;

	for (i = 0; !ret && i < list->count; i++) {
		qdisc = &list->entries[i];
		handle = qdisc->handle;
		if (qdisc != root && !is_child(qdisc, root))
			continue;
		if (qdisc == root && !strcmp(root->kind, "mq"))
			continue;
		if (!qdisc_is_ours(qdisc)) /* a queue that we did not get to, or that came up since */
			handle = QDISC_OUR_ROOT + (TC_H_MIN(qdisc->parent) << 16);
		else if (horizon_of(qdisc) >= horizon_us)
			continue;
		ret = put_fq(nl, ifindex, qdisc->parent, handle, horizon_us);
	}
	return ret;
}

/*
 * codel counts in units of 1024 ns and dumps whole microseconds, rounded down: fed back as it is, 5 ms would come back
 * one unit, and by and by a microsecond, shorter. One microsecond more gives exactly the old unit, for every value.
 */
static void fix_codel(struct qdisc *qdisc, const uint16_t *times, size_t count)
{
	struct nlattr *attr;
	uint32_t us;
	size_t i;

	for (i = 0; i < count; i++) {
		attr = find_option(qdisc->options, qdisc->options_len, times[i]);
		if (!attr)
			continue;
		us = mnl_attr_get_u32(attr) + 1;
		memcpy(mnl_attr_get_payload(attr), &us, sizeof(us));
	}
}

/* The most bytes that `ticks` of tbf's bucket hold; 0 when no whole number of bytes gives these ticks. */
static uint32_t tbf_bytes(const struct tc_ratespec *spec, uint64_t rate, uint32_t ticks)
{
	unsigned __int128 last_ns = (ticks + 1ULL) * TICK_NS - 1;
	uint64_t bytes;

	if (!rate || spec->linklayer != TC_LINKLAYER_ETHERNET)
		return 0;
	bytes = last_ns * rate / 1000000000U;
	if (bytes <= spec->overhead || bytes * 1000000000ULL / rate / TICK_NS != ticks)
		return 0;
	return bytes - spec->overhead;
}

static void add_option(struct qdisc *qdisc, uint16_t type, uint32_t value)
{
	struct nlattr *attr = (void *)(qdisc->options + qdisc->options_len);

	if (!value || qdisc->options_len + MNL_ATTR_HDRLEN + sizeof(value) > sizeof(qdisc->options))
		return;
	attr->nla_type = type;
	attr->nla_len = MNL_ATTR_HDRLEN + sizeof(value);
	memcpy(mnl_attr_get_payload(attr), &value, sizeof(value));
	qdisc->options_len += attr->nla_len;
}

static uint64_t tbf_rate(struct qdisc *qdisc, uint16_t wide, uint32_t rate)
{
	struct nlattr *attr = find_option(qdisc->options, qdisc->options_len, wide);

	return attr ? mnl_attr_get_u64(attr) : rate;
}

/*
 * tbf dumps its burst as time, rounded down to a tick. Made from that, the bucket could hold one byte less than before,
 * and a bucket smaller than a packet lets nothing through; so say the bytes, as tc does.
 */
static void fix_tbf(struct qdisc *qdisc)
{
	struct nlattr *attr = find_option(qdisc->options, qdisc->options_len, TCA_TBF_PARMS);
	struct tc_tbf_qopt tbf;

	if (!attr || mnl_attr_get_payload_len(attr) < sizeof(tbf))
		return;
	memcpy(&tbf, mnl_attr_get_payload(attr), sizeof(tbf));
	add_option(qdisc, TCA_TBF_BURST,
		   tbf_bytes(&tbf.rate, tbf_rate(qdisc, TCA_TBF_RATE64, tbf.rate.rate), tbf.buffer));
	if (tbf.peakrate.rate)
		add_option(qdisc, TCA_TBF_PBURST,
			   tbf_bytes(&tbf.peakrate, tbf_rate(qdisc, TCA_TBF_PRATE64, tbf.peakrate.rate), tbf.mtu));
}

/* What to feed the kernel so that its dump becomes `dumped` again. */
static struct qdisc as_request(const struct qdisc *dumped)
{
	static const uint16_t codel[] = { TCA_CODEL_TARGET, TCA_CODEL_INTERVAL, TCA_CODEL_CE_THRESHOLD };
	static const uint16_t fq_codel[] = { TCA_FQ_CODEL_TARGET, TCA_FQ_CODEL_INTERVAL, TCA_FQ_CODEL_CE_THRESHOLD };
	struct qdisc qdisc = *dumped;

	if (!strcmp(qdisc.kind, "codel"))
		fix_codel(&qdisc, codel, sizeof(codel) / sizeof(*codel));
	else if (!strcmp(qdisc.kind, "fq_codel"))
		fix_codel(&qdisc, fq_codel, sizeof(fq_codel) / sizeof(*fq_codel));
	else if (!strcmp(qdisc.kind, "tbf"))
		fix_tbf(&qdisc);
	return qdisc;
}

/* Handle 0: the kernel chooses one. */
static int create(struct netlink *nl, unsigned int ifindex, uint32_t parent, uint32_t handle,
		  const struct qdisc *dumped)
{
	struct qdisc qdisc = as_request(dumped);
	struct nlmsghdr *request;

	request = begin_new(nl, NLM_F_CREATE | NLM_F_REPLACE, ifindex, parent, handle, qdisc.kind);
	if (qdisc.options_len)
		mnl_attr_put(request, TCA_OPTIONS, qdisc.options_len, qdisc.options);
	return netlink_talk(nl);
}

static int delete_root(struct netlink *nl, unsigned int ifindex)
{
	struct tcmsg *tc;

	netlink_begin(nl, RTM_DELQDISC, 0, sizeof(*tc), (void **)&tc);
	tc->tcm_ifindex = ifindex;
	tc->tcm_parent = TC_H_ROOT;
	tc->tcm_handle = QDISC_OUR_ROOT; /* so that nobody else's is deleted, should it have been replaced just now */
	return netlink_talk(nl);
}

static const struct qdisc *child_of_queue(const struct qdisc_tree *tree, uint32_t queue)
{
	size_t i;

	for (i = 0; i < tree->children_count; i++)
		if (TC_H_MIN(tree->children[i].parent) == queue)
			return &tree->children[i];
	return NULL;
}

/* Of what somebody configured every parameter counts, of what the kernel chose the kind. */
static bool same_qdisc(const struct qdisc *before, const struct qdisc *now)
{
	if (strcmp(before->kind, now->kind))
		return false;
	return !before->handle || (before->handle == now->handle && before->options_len == now->options_len &&
				   !memcmp(before->options, now->options, now->options_len));
}

/* Queues that the device no longer has do not count. */
static bool same_tree(const struct qdisc_tree *before, const struct qdisc_tree *now)
{
	const struct qdisc *child;
	size_t i;

	if (!same_qdisc(&before->root, &now->root))
		return false;
	for (i = 0; i < before->children_count; i++) {
		child = child_of_queue(now, TC_H_MIN(before->children[i].parent));
		if (child && !same_qdisc(&before->children[i], child))
			return false;
	}
	return true;
}

static int look_again(struct netlink *nl, unsigned int ifindex, struct qdisc_tree *now)
{
	struct qdisc_list list;
	int ret;

	memset(now, 0, sizeof(*now));
	ret = qdisc_list_get(nl, &list);
	if (!ret)
		ret = qdisc_tree_get(&list, ifindex, 0, now);
	qdisc_list_free(&list);
	return ret;
}

/* An mq; its children where the kernel's own choice is not, or no longer, what was there. */
static int create_mq(struct netlink *nl, unsigned int ifindex, const struct qdisc_tree *before)
{
	struct qdisc_tree now;
	const struct qdisc *old;
	size_t i;
	int ret;

	begin_new(nl, NLM_F_CREATE | NLM_F_REPLACE, ifindex, TC_H_ROOT, before->root.handle, "mq");
	ret = netlink_talk(nl);
	if (ret)
		return ret;
	ret = look_again(nl, ifindex, &now);
	for (i = 0; !ret && i < now.children_count; i++) {
		old = child_of_queue(before, TC_H_MIN(now.children[i].parent));
		if (old && !same_qdisc(old, &now.children[i]))
			ret = create(nl, ifindex, now.children[i].parent, old->handle, old);
	}
	qdisc_tree_free(&now);
	return ret;
}

static int create_tree(struct netlink *nl, unsigned int ifindex, const struct qdisc_tree *before)
{
	if (!strcmp(before->root.kind, "mq"))
		return create_mq(nl, ifindex, before);
	return create(nl, ifindex, TC_H_ROOT, before->root.handle, &before->root);
}

/*
 * The kernel's default comes by itself when ours goes. It is another kind than before when net.core.default_qdisc was
 * changed since the device came up; then the old kind is created, which gives it a handle but is otherwise the same.
 */
static int restore_default(struct netlink *nl, unsigned int ifindex, const struct qdisc_tree *before)
{
	struct qdisc_tree now;
	int ret;

	ret = delete_root(nl, ifindex);
	if (ret || !before || !before->root.kind[0])
		return ret;
	ret = look_again(nl, ifindex, &now);
	if (ret)
		return ret;
	if (now.root.kind[0] && !same_tree(before, &now))
		ret = create_tree(nl, ifindex, before);
	qdisc_tree_free(&now);
	return ret;
}

static int restore_configured(struct netlink *nl, unsigned int ifindex, const struct qdisc_tree *before)
{
	char reason[sizeof(nl->reason)];
	struct qdisc_tree now;
	int ret;

	ret = create_tree(nl, ifindex, before);
	if (ret) {
		/* Better the kernel's default than ours. */
		memcpy(reason, nl->reason, sizeof(reason));
		delete_root(nl, ifindex);
		memcpy(nl->reason, reason, sizeof(reason));
		return ret;
	}
	ret = look_again(nl, ifindex, &now);
	if (ret)
		return ret;
	if (!same_tree(before, &now))
		ret = -EILSEQ;
	qdisc_tree_free(&now);
	return ret;
}

/* The kernel log says "Caught tx_queue_len zero misconfig" when that happens. */
int qdisc_restore_length(struct netlink *nl, unsigned int ifindex, const struct qdisc_tree *before)
{
	const struct nlmsghdr *message;
	struct nlmsghdr *request;
	struct ifinfomsg *link;
	const struct nlattr *attr;
	int ret;

	if (before->tx_queue_len)
		return 0;
	netlink_begin(nl, RTM_GETLINK, 0, sizeof(*link), (void **)&link);
	link->ifi_index = ifindex;
	ret = netlink_talk(nl);
	message = netlink_next(nl, NULL);
	if (ret || !message)
		return ret;
	mnl_attr_for_each(attr, message, sizeof(*link)) if (mnl_attr_get_type(attr) == IFLA_TXQLEN &&
							    mnl_attr_get_u32(attr) != DEFAULT_TX_QUEUE_LEN) return 0;
	request = netlink_begin(nl, RTM_NEWLINK, 0, sizeof(*link), (void **)&link);
	link->ifi_index = ifindex;
	mnl_attr_put_u32(request, IFLA_TXQLEN, before->tx_queue_len);
	return netlink_talk(nl);
}

int qdisc_restore(struct netlink *nl, unsigned int ifindex, const struct qdisc_tree *before)
{
	char reason[sizeof(nl->reason)];
	int ret, length;

	if (before && before->root.handle)
		ret = restore_configured(nl, ifindex, before);
	else
		ret = restore_default(nl, ifindex, before);
	memcpy(reason, nl->reason, sizeof(reason));
	length = before ? qdisc_restore_length(nl, ifindex, before) : 0;
	if (ret)
		memcpy(nl->reason, reason, sizeof(reason));
	return ret ?: length;
}

/* Probing */

static int probe_here(void)
{
	struct netns here = { .fd = -1 };
	struct netlink nl = { 0 };
	struct error err;
	struct stat st;
	int ret;

	/* The namespace we are in: nothing has to be entered to open a socket there. */
	if (stat("/proc/thread-self/ns/net", &st))
		return -errno;
	here.inode = st.st_ino;
	ret = netlink_open(&nl, &here, &err);
	if (!ret)
		ret = put_fq(&nl, 1, TC_H_ROOT, QDISC_OUR_ROOT, 1000000); /* 1: lo is the first device everywhere */
	netlink_close(&nl);
	return ret;
}

int qdisc_probe_fq(void)
{
	static bool works;
	int home, ret;

	if (works)
		return 0;
	home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (home < 0)
		return -errno;
	if (unshare(CLONE_NEWNET)) {
		ret = -errno;
	} else {
		ret = probe_here();
		if (setns(home, CLONE_NEWNET))
			abort();
	}
	close(home);
	works = !ret;
	return ret;
}
