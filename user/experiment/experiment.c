// SPDX-License-Identifier: GPL-2.0-only
/* An experiment file from its bytes to struct experiment: the way in, the top of the language, and checks across sections. */
#include "user/experiment/experiment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/experiment/experiment_internal.h"
#include "user/rules/explain.h"

#define SECOND_NS 1000000000ULL

/* Read in the order of the meaning, not of the file: measures need probes, rules need to know how long all takes. */
static const struct key file_keys[] = {
	{ "version", key_later, 0 },
	{ "experiment", key_later, 0 },
	{ "title", key_later, 0 },
	{ "environment", key_later, 0 },
	{ "service", key_later, 0 },
	{ "probes", key_later, 0 },
	{ "steady", key_later, 0 },
	{ "during", key_later, 0 },
	{ "recovery", key_later, 0 },
	{ "abort", key_later, 0 },
	{ "baseline", key_later, 0 },
	{ "observe", key_later, 0 },
	{ "cooldown", key_later, 0 },
	{ "method", key_later, 0 },
	{ "endpoints", key_later, 0 },
	{ "defaults", key_later, 0 },
	{ NULL, NULL, 0 },
};

static const struct key recovery_keys[] = {
	{ "within", key_phase, offsetof(struct experiment, recovery_within_ns) },
	{ "for", key_timeout, offsetof(struct experiment, recovery_for_ns) },
	{ NULL, NULL, 0 },
};

/* The section, when it is there. */
static int section(struct reading *r, const char *name, int (*parse)(struct parser *, const struct node *, void *),
		   void *target)
{
	const struct node *node = node_get(r->root, name);

	return node ? parse(&r->p, node, target) : 0;
}

static int parse_recovery(struct parser *p, const struct node *node, void *target)
{
	return map_parse(p, node, "a map such as { within: 60s }", recovery_keys, target);
}

static int parse_names(struct reading *r)
{
	struct experiment *e = r->experiment;
	const struct node *name = node_get(r->root, "experiment"), *environment = node_get(r->root, "environment");
	int err;

	if (!name)
		return fail(&r->p, r->root->mark, "the experiment has no name, write 'experiment: vector-db-timeout'");
	e->mark = name->mark;
	err = key_word(&r->p, name, e->name);
	if (!err)
		err = section(r, "title", key_string, &e->title);
	if (err)
		return err;
	snprintf(e->environment, sizeof(e->environment), "test");
	if (environment) {
		e->environment_mark = environment->mark;
		err = key_word(&r->p, environment, e->environment);
	}
	if (!err && r->options && r->options->environment) {
		e->environment_mark = (struct mark){ 0 };
		if (name_parse(&r->p, e->mark, r->options->environment, e->environment))
			err = error_set(r->p.err, -EINVAL, EXIT_USAGE, "--environment: '%s' is no name",
					r->options->environment);
	}
	return err;
}

static int parse_times(struct reading *r)
{
	struct experiment *e = r->experiment;
	int err;

	e->baseline_ns = 30 * SECOND_NS;
	e->observe_ns = 60 * SECOND_NS;
	e->recovery_within_ns = 60 * SECOND_NS;
	e->recovery_for_ns = 5 * SECOND_NS;
	err = section(r, "baseline", key_timeout, &e->baseline_ns);
	err = err ?: section(r, "observe", key_phase, &e->observe_ns);
	err = err ?: section(r, "cooldown", key_phase, &e->cooldown_ns);
	return err ?: section(r, "recovery", parse_recovery, e);
}

static const char how_to_write_one[] = "write what is promised as numbers, such as steady: { ask.success: \">= 99%\", "
				       "ask.p99: \"<= 800ms\" } and during: "
				       "{ ask.success: \">= 90%\", within: 30s }";

static int parse_conditions(struct reading *r)
{
	struct experiment *e = r->experiment;
	const struct node *steady = node_get(r->root, "steady"), *during = node_get(r->root, "during"),
			  *abort = node_get(r->root, "abort");
	int err = 0;

	if (!steady && !during) {
		err = fail(&r->p, r->root->mark,
			   "no hypothesis: nothing is promised under 'steady' or 'during', so nothing could be found");
		error_hint(r->p.err, "%s", how_to_write_one);
		return err;
	}
	e->abort_for_ns = 10 * SECOND_NS;
	if (steady)
		err = conditions_parse(&r->p, steady, "steady", NULL, NULL, &e->steady);
	if (!err && during)
		err = conditions_parse(&r->p, during, "during", "within", &e->within_ns, &e->during);
	if (!err && abort)
		err = conditions_parse(&r->p, abort, "abort", "for", &e->abort_for_ns, &e->abort);
	return err;
}

/* Each condition of a section needs an attempt of its probe at least within that time. */
static int check_attempts(struct reading *r, const struct conditions *conditions, uint64_t window_ns, const char *what)
{
	const struct experiment *e = r->experiment;
	char time[64], every[64];

	for (size_t i = 0; i < conditions->count; i++) {
		const struct experiment_probe *probe = &e->probes[conditions->list[i].probe];

		if (probe->kind != PROBE_LOAD && probe->every_ns > window_ns)
			return fail(&r->p, conditions->list[i].mark, "probe '%s' asks every %s only, and %s is %s",
				    probe->name, format_duration(every, sizeof(every), probe->every_ns), what,
				    format_duration(time, sizeof(time), window_ns));
	}
	return 0;
}

static int check_times(struct reading *r)
{
	struct experiment *e = r->experiment;
	uint64_t broken_ns = experiment_method_ns(e) + e->observe_ns;
	char time[64];
	int err;

	if (e->within_ns && e->within_ns >= broken_ns)
		return fail(&r->p, e->during.mark, "'within' leaves nothing of the %s from the method to the roll back",
			    format_duration(time, sizeof(time), broken_ns));
	if (broken_ns == 0)
		return fail(&r->p, node_get(r->root, "observe")->mark,
			    "nothing is broken for any time: give 'observe'");
	err = check_attempts(r, &e->steady, e->baseline_ns, "the baseline");
	if (!err)
		err = check_attempts(r, &e->during, broken_ns - e->within_ns, "the time that is judged");
	if (!err)
		err = check_attempts(r, &e->abort, e->abort_for_ns, "'for'");
	if (!err && experiment_longest_ns(e) > EXPERIMENT_MAX_PHASE_NS)
		err = fail(&r->p, r->root->mark, "the experiment could take %s, at most 1 d are allowed",
			   format_duration(time, sizeof(time), experiment_longest_ns(e)));
	return err;
}

static int check_injects(struct reading *r, const struct node *method)
{
	const struct experiment *e = r->experiment;

	for (size_t i = 0; i < e->steps_count; i++) {
		if (step_injects(e, &e->steps[i]))
			return 0;
	}
	return fail(&r->p, method->mark, "the method breaks nothing, it only waits");
}

static int parse_all(struct reading *r)
{
	const struct node *probes, *method;
	int err;

	err = map_check_keys(&r->p, r->root, "a map with version, experiment, probes, hypotheses and method",
			     file_keys);
	if (!err)
		err = version_check(&r->p, r->root);
	err = err ?: parse_names(r);
	err = err ?: section(r, "service", watch_parse, r->experiment);
	err = err ?: parse_times(r);
	if (err)
		return err;
	probes = node_get(r->root, "probes");
	method = node_get(r->root, "method");
	if (!probes && !r->experiment->watch)
		return fail(&r->p, r->root->mark, "the probes are missing: how shall the service be asked?");
	if (!method)
		return fail(&r->p, r->root->mark, "the method is missing: what shall be broken?");
	err = probes_make(&r->p);
	if (!err && probes)
		err = probes_parse(&r->p, probes);
	err = err ?: steps_parse(&r->p, method);
	err = err ?: check_injects(r, method);
	err = err ?: parse_conditions(r);
	return err ?: check_times(r);
}

/* Fills in what is found in `source`, whose bytes are there. */
static int source_parse(struct rules *source, struct experiment *e, const struct experiment_options *options,
			struct error *err)
{
	struct reading r = { .p = { .rules = source, .err = err, .presets_only = true },
			     .experiment = e,
			     .options = options };
	const char *slash = strrchr(source->file, '/');
	struct node *root = NULL;
	int code;

	if (slash)
		snprintf(r.folder, sizeof(r.folder), "%.*s", (int)(slash - source->file + 1), source->file);
	code = source_check(source, err);
	code = code ?: yaml_read(source, &root, err);
	r.root = root;
	code = code ?: parse_all(&r);
	node_free(root);
	return code;
}

/* Takes `source`. */
static int parse(struct rules *source, const struct experiment_options *options, struct experiment **experiment,
		 struct error *err)
{
	struct experiment *e = calloc(1, sizeof(*e));
	int code = 0;

	if (!e)
		code = error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	else
		e->file = strdup(source->file);
	if (!code && !e->file)
		code = error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	code = code ?: source_parse(source, e, options, err);
	if (!code) {
		e->text = source->source;
		source->source = NULL;
		*experiment = e;
	} else {
		experiment_free(e);
	}
	rules_free(source);
	return code;
}

int experiment_load(const char *path, const struct experiment_options *options, struct experiment **experiment,
		    struct error *err)
{
	struct rules *source = rules_new(strcmp(path, "-") == 0 ? "<stdin>" : path);
	int code;

	*experiment = NULL;
	if (!source)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	code = source_read(source, path, err);
	if (code) {
		rules_free(source);
		return code;
	}
	return parse(source, options, experiment, err);
}

int experiment_parse(const char *file, const char *text, size_t len, const struct experiment_options *options,
		     struct experiment **experiment, struct error *err)
{
	struct rules *source = rules_new(file);

	*experiment = NULL;
	if (source)
		source->source = bytes_copy(text, len);
	if (!source || !source->source) {
		rules_free(source);
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	}
	source->source_len = len;
	return parse(source, options, experiment, err);
}

void experiment_free(struct experiment *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->probes_count; i++)
		experiment_probe_free(&e->probes[i]);
	for (size_t i = 0; i < e->steps_count; i++)
		step_free(&e->steps[i]);
	free(e->probes);
	free(e->steps);
	free(e->steady.list);
	free(e->during.list);
	free(e->abort.list);
	rules_free(e->watch);
	free(e->title);
	free(e->text);
	free(e->file);
	free(e);
}

uint64_t experiment_method_ns(const struct experiment *experiment)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < experiment->steps_count; i++)
		ns += step_longest_ns(&experiment->steps[i]);
	return ns;
}

uint64_t experiment_longest_ns(const struct experiment *e)
{
	return e->baseline_ns + experiment_method_ns(e) + e->observe_ns + e->recovery_within_ns + e->recovery_for_ns +
	       e->cooldown_ns;
}

int experiment_error_at(const struct experiment *experiment, struct mark mark, struct error *err, const char *fmt, ...)
{
	struct rules file = { .file = experiment->file };
	char text[sizeof(err->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return rules_error_at(&file, mark, err, EXIT_USAGE, "%s", text);
}
