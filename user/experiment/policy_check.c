// SPDX-License-Identifier: GPL-2.0-only
/* Whether an experiment may be run here and now. In doubt it may not: a rule that could hit what is forbidden is refused. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "user/experiment/policy.h"
#include "user/rules/explain.h"

#define refuse(policy, mark, err, ...) \
	rules_error_at(&(struct rules){ .file = (policy)->file }, mark, err, EXIT_USAGE, __VA_ARGS__)

/* ---- when ---- */

static bool window_holds(const struct window *window, time_t at)
{
	struct tm tm;
	unsigned int minute, day, yesterday;

	localtime_r(&at, &tm);
	minute = (unsigned int)(tm.tm_hour * 60 + tm.tm_min);
	day = 1U << tm.tm_wday;
	yesterday = 1U << (tm.tm_wday + 6) % 7;
	if (window->first_minute < window->last_minute)
		return window->days & day && minute >= window->first_minute && minute < window->last_minute;
	/* Over midnight: the day is that on which it begins. */
	return (window->days & day && minute >= window->first_minute) ||
	       (window->days & yesterday && minute < window->last_minute);
}

static const struct policy_window *window_at(const struct policy_window *windows, size_t count, time_t at)
{
	for (size_t i = 0; i < count; i++) {
		if (window_holds(&windows[i].window, at))
			return &windows[i];
	}
	return NULL;
}

static void clock_words(char *buf, size_t size, time_t at)
{
	struct tm tm;

	localtime_r(&at, &tm);
	strftime(buf, size, "%a %H:%M", &tm);
}

/* Every minute from now to the latest end. */
static int check_hours(const struct policy *policy, const struct experiment *e, time_t now, struct error *err)
{
	time_t end = now + (time_t)(experiment_longest_ns(e) / 1000000000ULL);
	const struct policy_window *peak;
	char words[32];

	for (time_t at = now;; at = at + 60 < end ? at + 60 : end) {
		clock_words(words, sizeof(words), at);
		if (policy->hours_count && !window_at(policy->hours, policy->hours_count, at))
			return refuse(policy, policy->hours[0].mark, err, "%s is outside the hours that are allowed%s",
				      words, at == now ? "" : ", and it could take until then");
		peak = window_at(policy->peak_hours, policy->peak_hours_count, at);
		if (peak)
			return refuse(policy, peak->mark, err, "%s is within the peak hours%s", words,
				      at == now ? "" : ", and it could take until then");
		if (at == end)
			return 0;
	}
}

/* ---- who ---- */

static int check_operator(const struct policy *policy, const char *operator, struct error * err)
{
	if (!policy->operator_required)
		return 0;
	if (!operator|| !operator[0]) {
		refuse(policy, policy->operator_mark, err, "somebody must be on call, and nobody is named");
		error_hint(err, "name the person with --operator NAME");
		return -EINVAL;
	}
	for (size_t i = 0; i < policy->operators_count; i++) {
		if (strcmp(policy->operators[i].text, operator) == 0)
			return 0;
	}
	return policy->operators_count ? refuse(policy, policy->operator_mark, err,
						"'%s' is not one of those who may be on call", operator)
				       : 0;
}

/* ---- whom and how much ---- */

/* One of the two is the other, or lies below it. */
static bool related(const char *a, const char *b)
{
	size_t shorter = strlen(a) < strlen(b) ? strlen(a) : strlen(b);

	while (*a == '/')
		a++;
	while (*b == '/')
		b++;
	shorter = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
	return strncmp(a, b, shorter) == 0 && (a[shorter] == '/' || !a[shorter]) && (b[shorter] == '/' || !b[shorter]);
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "rag" is rag.service. */
static bool same_unit(const char *unit, const char *cgroup)
{
	const char *name = last_part(cgroup);
	size_t len = strlen(unit);

	return strncmp(unit, name, len) == 0 && (!name[len] || strcmp(name + len, ".service") == 0);
}

static int check_cgroups(const struct policy *policy, const struct rule *rule, struct error *err)
{
	const struct match *m = &rule->match;

	for (size_t i = 0; i < policy->cgroups_count; i++) {
		const struct text *forbidden = &policy->cgroups[i];

		if (m->cgroup.text ? related(m->cgroup.text, forbidden->text)
		    : m->unit.text ? same_unit(m->unit.text, forbidden->text)
				   : false)
			return refuse(policy, forbidden->mark, err, "rule '%s' hits the forbidden cgroup '%s'",
				      rule->name, forbidden->text);
		if (!m->cgroup.text && !m->unit.text && !m->container.text && !m->pod.text && !m->pid)
			return refuse(
				policy, forbidden->mark, err,
				"rule '%s' names no cgroup, unit, container, pod or pid, so that it could hit the "
				"forbidden cgroup '%s'",
				rule->name, forbidden->text);
	}
	return 0;
}

/* Could a name be meant by both? */
static bool names_meet(const struct host_name *name, const char *forbidden)
{
	char pattern[RULES_MAX_HOST_NAME + 3];

	snprintf(pattern, sizeof(pattern), "%s%s", name->suffix ? "*." : "", name->name);
	return strcasecmp(pattern, forbidden) == 0 || fnmatch(forbidden, pattern, FNM_CASEFOLD) == 0 ||
	       fnmatch(pattern, forbidden, FNM_CASEFOLD) == 0;
}

static int check_names(const struct policy *policy, const struct rule *rule, struct error *err)
{
	const struct endpoint *endpoint = &rule->match.endpoint;

	for (size_t i = 0; i < policy->names_count; i++) {
		for (size_t n = 0; n < endpoint->names_count; n++) {
			if (names_meet(&endpoint->names[n], policy->names[i].text))
				return refuse(policy, policy->names[i].mark, err,
					      "rule '%s' hits the forbidden name '%s'", rule->name,
					      policy->names[i].text);
		}
		if (!endpoint->names_count && !endpoint->hosts_count)
			return refuse(policy, policy->names[i].mark, err,
				      "rule '%s' names no host, so that it could hit the forbidden name '%s'",
				      rule->name, policy->names[i].text);
	}
	return 0;
}

static int check_ports(const struct policy *policy, const struct rule *rule, struct error *err)
{
	const struct endpoint *endpoint = &rule->match.endpoint;

	for (size_t i = 0; i < policy->ports_count; i++) {
		const struct port_range *forbidden = &policy->ports[i];

		for (size_t n = 0; n < endpoint->ports_count; n++) {
			if (endpoint->ports[n].first <= forbidden->last && forbidden->first <= endpoint->ports[n].last)
				return refuse(policy, forbidden->mark, err, "rule '%s' hits the forbidden port %u",
					      rule->name, forbidden->first);
		}
		if (!endpoint->ports_count)
			return refuse(policy, forbidden->mark, err,
				      "rule '%s' names no port, so that it could hit the forbidden port %u", rule->name,
				      forbidden->first);
	}
	return 0;
}

static uint32_t most_percent(const struct rule *rule)
{
	uint64_t to = rule->percent_ramp.over_ns ? rule->percent_ramp.to : 0;

	return to > rule->percent_ppm ? (uint32_t)to : rule->percent_ppm;
}

static int check_amounts(const struct policy *policy, const struct experiment *e, const struct step *step,
			 const struct rule *rule, struct error *err)
{
	char asked[64], allowed[64];
	uint64_t lasts = e->observe_ns;

	for (const struct step *s = step; s < e->steps + e->steps_count; s++)
		lasts += step_longest_ns(s);
	lasts = step->for_ns ? step->for_ns : lasts;
	lasts = rule->duration_ns < lasts ? rule->duration_ns : lasts;
	if (policy->max_percent_ppm && most_percent(rule) > policy->max_percent_ppm)
		return refuse(policy, policy->percent_mark, err, "rule '%s' hits %s, at most %s are allowed",
			      rule->name, format_percent(asked, sizeof(asked), most_percent(rule)),
			      format_percent(allowed, sizeof(allowed), policy->max_percent_ppm));
	if (policy->max_duration_ns && lasts > policy->max_duration_ns)
		return refuse(policy, policy->duration_mark, err, "rule '%s' lasts %s, at most %s are allowed",
			      rule->name, format_duration(asked, sizeof(asked), lasts),
			      format_duration(allowed, sizeof(allowed), policy->max_duration_ns));
	if (policy->max_hits && !rule->max_hits)
		return refuse(policy, policy->hits_mark, err, "rule '%s' has no 'max-hits', at most %llu are allowed",
			      rule->name, (unsigned long long)policy->max_hits);
	if (policy->max_hits && rule->max_hits > policy->max_hits)
		return refuse(policy, policy->hits_mark, err, "rule '%s' hits %llu times, at most %llu are allowed",
			      rule->name, (unsigned long long)rule->max_hits, (unsigned long long)policy->max_hits);
	return 0;
}

static int check_rule(const struct policy *policy, const struct experiment *e, const struct step *step,
		      const struct rule *rule, struct error *err)
{
	int ret = check_amounts(policy, e, step, rule, err);

	ret = ret ?: check_cgroups(policy, rule, err);
	if (rule->fault.faults & CHAOS_CALLS)
		return ret; /* inside a process: it names no host and no port */
	ret = ret ?: check_names(policy, rule, err);
	return ret ?: check_ports(policy, rule, err);
}

/* ---- production ---- */

static bool is_production(const struct experiment *e)
{
	return strcasecmp(e->environment, "production") == 0;
}

/* Where the environment was named: in the file, or on the command line; then the experiment's name stands for it. */
static struct mark environment_place(const struct experiment *e)
{
	return e->environment_mark.line ? e->environment_mark : e->mark;
}

static int check_production(const struct policy *policy, const struct experiment *e, const char *variable,
			    struct error *err)
{
	if (!is_production(e))
		return 0;
	if (!policy->file)
		return experiment_error_at(e, environment_place(e), err,
					   "'production' is forbidden, there is no " POLICY_FILE " that allows it");
	if (!policy->production && !policy->production_mark.line)
		return experiment_error_at(e, environment_place(e), err,
					   "'production' is forbidden, '%s' does not say 'production: allowed'",
					   policy->file);
	if (!policy->production)
		return refuse(policy, policy->production_mark, err,
			      "'production' is forbidden, write 'production: allowed' to allow it");
	if (!policy->hours_count)
		return refuse(policy, policy->production_mark, err,
			      "'production' needs 'hours' in which it is allowed");
	if (!variable || strcmp(variable, "yes") != 0)
		return experiment_error_at(e, environment_place(e), err,
					   "'production' needs the environment variable " POLICY_PRODUCTION "=yes");
	return 0;
}

int policy_check(const struct policy *policy, const struct experiment *e, const struct policy_asked *asked,
		 struct error *err)
{
	int ret = check_production(policy, e, asked->production, err);

	if (ret || !policy->file)
		return ret;
	ret = check_operator(policy, asked->operator, err);
	ret = ret ?: check_hours(policy, e, asked->now, err);
	for (size_t i = 0; i < e->steps_count; i++) {
		for (size_t n = 0; !ret && e->steps[i].rules && n < e->steps[i].rules->count; n++)
			ret = check_rule(policy, e, &e->steps[i], &e->steps[i].rules->rules[n], err);
	}
	return ret;
}

int policy_check_findings(const struct policy *policy, const struct experiment *e, struct findings *findings,
			  time_t now, struct error *err)
{
	double started_s = 0;
	int64_t id = 0;
	int ret = findings_open_weakness(findings, e->name, &id, err);

	if (ret)
		return ret;
	if (id) {
		experiment_error_at(e, e->mark, err, "the weakness that run %lld of '%s' found is still open",
				    (long long)id, e->name);
		error_hint(err, "when it is mended: chaosbpf history resolve %lld --note \"what was done\"",
			   (long long)id);
		return -EINVAL;
	}
	if (!is_production(e))
		return 0;
	ret = findings_last_held(findings, e->name, "staging", &id, &started_s, err);
	if (ret)
		return ret;
	if (!id)
		return experiment_error_at(
			e, e->mark, err,
			"'production' needs a run of '%s' that has held in 'staging', and there is none", e->name);
	if (policy->staging_within_ns && (double)now - started_s > (double)policy->staging_within_ns / 1e9)
		return experiment_error_at(e, e->mark, err,
					   "the last run of '%s' that has held in 'staging', run %lld, is too old",
					   e->name, (long long)id);
	return 0;
}
