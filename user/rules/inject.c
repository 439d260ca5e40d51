// SPDX-License-Identifier: GPL-2.0-only
/*
 * Owns the way from command line words to YAML. What the values mean is the rules' parser's business; here it is only
 * known which key a word belongs to and how a list is written on a command line.
 */
#include "user/rules/inject.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/output.h"
#include "user/rules/presets.h"

enum section { IN_MATCH, IN_RULE };

/* Options that become a key of the same name, or of `key`. --to and --port become `hosts`, or `endpoint`, and `ports`. */
static const struct {
	const char *option;
	enum section section;
	const char *key;
} keys[] = {
	{ "endpoint", IN_MATCH, "endpoint" },
	{ "protocol", IN_MATCH, "protocol" },
	{ "pid", IN_MATCH, "pid" },
	{ "cgroup", IN_MATCH, "cgroup" },
	{ "container", IN_MATCH, "container" },
	{ "pod", IN_MATCH, "pod" },
	{ "unit", IN_MATCH, "unit" },
	{ "process", IN_MATCH, "process" },
	{ "user", IN_MATCH, "user" },
	{ "side", IN_MATCH, "side" },
	{ "direction", IN_MATCH, "direction" },
	{ "everything", IN_MATCH, "everything" },
	{ "include-ssh", IN_MATCH, "include-ssh" },
	{ "resolver", IN_MATCH, "resolver" },
	{ "percent", IN_RULE, "percent" },
	{ "per", IN_RULE, "per" },
	{ "max-hits", IN_RULE, "max-hits" },
	{ "max-rate", IN_RULE, "max-rate" },
	{ "seed", IN_RULE, "seed" },
	{ "for", IN_RULE, "duration" },
};

/* `bare`: what the word means without "=value"; NULL: it needs one. */
static const struct {
	const char *word, *bare, *example;
} faults[] = {
	{ "drop", "true", "drop=5%" },
	{ "delay", NULL, "delay=5s" },
	{ "jitter", NULL, "jitter=500ms" },
	{ "distribution", NULL, "distribution=normal" },
	{ "refuse", NULL, "refuse=refused" },
	{ "reset", "true", "reset" },
	{ "accept-silence", "true", "accept-silence" },
	{ "tls-stall", "true", "tls-stall" },
	{ "duplicate", "true", "duplicate=5%" },
	{ "corrupt", "true", "corrupt=2%" },
	{ "reorder", "true", "reorder=10%" },
	{ "half-open", NULL, "half-open=2m" },
	{ "rate", NULL, "rate=1mbit" },
	{ "tokens", NULL, "tokens=5/s" },
	{ "dns", NULL, "dns=nxdomain" },
	{ "break-after", NULL, "break-after=4KiB" },
	{ "status", NULL, "status=429" },
	{ "retry-after", NULL, "retry-after=20s" },
	{ "body", NULL, "body=html" },
	{ "as", NULL, "as=openai" },
	{ "hang", "true", "hang" },
	{ "error-event", NULL, "error-event=overloaded" },
	{ "drop-done", "true", "drop-done" },
	{ "garble", "true", "garble.every=5" },
	{ "grpc", NULL, "grpc=unavailable" },
	{ "gpu-oom", "true", "gpu-oom" },
	{ "call", NULL, "call.library=libz.so.1 call.function=crc32 call.returns=0" },
	{ "errno", NULL, "errno.operation=open errno.error=EIO" },
};
#define FAULT_WORDS (sizeof(faults) / sizeof(faults[0]))

void inject_add(struct inject *inject, const char *option, const char *value)
{
	struct inject_word *words = realloc(inject->words, (inject->count + 1) * sizeof(*words));

	if (!words)
		abort();
	inject->words = words;
	words[inject->count++] = (struct inject_word){ option, value };
}

void inject_free(struct inject *inject)
{
	free(inject->words);
	free(inject->yaml);
	free(inject->origin);
	*inject = (struct inject){ 0 };
}

/* ---- writing YAML ---- */

/* Words that some YAML readers take for something else than text. */
static bool is_reserved(const char *text)
{
	static const char *const words[] = { "true", "false", "yes", "no", "on", "off", "null", "y", "n", NULL };

	for (int i = 0; words[i]; i++) {
		if (strcasecmp(words[i], text) == 0)
			return true;
	}
	return false;
}

/* May it stand without quotes? Only what no reader of YAML could take for syntax. */
static bool is_plain(const char *text)
{
	size_t len = strlen(text);

	return len > 0 && !strchr("._%/-", text[0]) && !is_reserved(text) &&
	       strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._%/-") == len;
}

/* Writes one scalar, quoted where needed; nothing but ASCII comes out. -EILSEQ when it is not UTF-8. */
static int write_scalar(FILE *out, const char *text)
{
	if (is_plain(text)) {
		fputs(text, out);
		return 0;
	}
	fputc('"', out);
	while (*text) {
		uint32_t c;
		size_t len = utf8_read(text, &c);

		if (!len)
			return -EILSEQ;
		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", (char)c);
		else if (c >= 0x20 && c < 0x7f)
			fputc((int)c, out);
		else
			fprintf(out, c <= 0xff ? "\\x%02x" : c <= 0xffff ? "\\u%04x" : "\\U%08x", (unsigned int)c);
		text += len;
	}
	fputc('"', out);
	return 0;
}

struct writer {
	struct inject *inject;
	FILE *out;
	struct error *err;
};

/* Begins a line that `origin` (NULL: nobody) is answerable for. */
static void begin_line(struct writer *w, const char *origin)
{
	struct inject *inject = w->inject;
	const char **lines = realloc(inject->origin, (inject->lines + 1) * sizeof(*lines));

	if (!lines)
		abort();
	inject->origin = lines;
	lines[inject->lines++] = origin;
}

static void write_line(struct writer *w, const char *text)
{
	begin_line(w, NULL);
	fprintf(w->out, "%s\n", text);
}

/* "--to" or "delay" for messages. */
static const char *origin_text(const char *origin, bool is_option, char *buf, size_t size)
{
	snprintf(buf, size, "%s%s", is_option ? "--" : "", origin);
	return buf;
}

static int not_utf8(struct writer *w, const char *origin, bool is_option)
{
	char buf[64];

	return error_set(w->err, -EILSEQ, EXIT_USAGE, "%s: not valid UTF-8",
			 origin_text(origin, is_option, buf, sizeof(buf)));
}

static int write_key(struct writer *w, const char *indent, const char *key, const char *value, const char *origin,
		     bool is_option)
{
	begin_line(w, origin);
	fprintf(w->out, "%s%s: ", indent, key);
	/* `true` without quotes is the flag itself; written by the user it is a text. */
	if (!value)
		fputs("true", w->out);
	else if (write_scalar(w->out, value))
		return not_utf8(w, origin, is_option);
	fputc('\n', w->out);
	return 0;
}

/* ---- lists: --to and --port ---- */

/* A part of an argument. */
struct span {
	const char *text;
	size_t len;
};

/*
 * HOST[:PORTS] in its parts. A colon stands before PORTS only when it is the only one, or after a bracket: "::1" is an
 * address.
 */
static int split_to(const char *text, struct span *host, struct span *ports, struct error *err)
{
	const char *end = text + strlen(text), *colon;

	if (text[0] == '[') {
		const char *bracket = strchr(text, ']');

		if (!bracket || (bracket[1] && bracket[1] != ':'))
			return error_set(err, -EINVAL, EXIT_USAGE, "--to: '%s' is not an address", text);
		*host = (struct span){ text + 1, bracket - text - 1 };
		colon = bracket[1] ? bracket + 1 : end;
	} else {
		colon = strchr(text, ':');
		if (!colon || strchr(colon + 1, ':'))
			colon = end;
		*host = (struct span){ text, colon - text };
	}
	*ports = (struct span){ colon < end ? colon + 1 : end, colon < end ? end - colon - 1 : 0 };
	if (host->len == 0 || (colon < end && ports->len == 0)) {
		error_set(err, -EINVAL, EXIT_USAGE, "--to: '%s' lacks %s", text, host->len ? "its port" : "its host");
		error_hint(err, "write --to 10.0.0.7:6333, or --port 6333 for that port of any host");
		return -EINVAL;
	}
	return 0;
}

static int write_item(struct writer *w, bool first, struct span item, const char *origin)
{
	char *copy = strndup(item.text, item.len);
	int rc;

	if (!copy)
		abort();
	if (!first)
		fputs(", ", w->out);
	rc = write_scalar(w->out, copy);
	free(copy);
	return rc ? not_utf8(w, origin, true) : 0;
}

/* "6333,9000-9010" as items of a list. */
static int write_items(struct writer *w, bool *first, struct span list, const char *origin)
{
	const char *end = list.text + list.len;

	for (;;) {
		const char *comma = memchr(list.text, ',', end - list.text);
		int rc = write_item(w, *first, (struct span){ list.text, (comma ? comma : end) - list.text }, origin);

		*first = false;
		if (rc || !comma)
			return rc;
		list.text = comma + 1;
	}
}

static bool is_option(const struct inject_word *word, const char *option)
{
	return word->option && strcmp(word->option, option) == 0;
}

/*
 * One rule has one set of ports for all its hosts, so "--to a:1 --to b:2" would also hit a:2. Finds the ports that all
 * --to agree on; none: an empty span.
 */
static int common_ports(const struct inject *inject, struct span *common, struct error *err)
{
	const char *first = NULL;

	*common = (struct span){ "", 0 };
	for (size_t i = 0; i < inject->count; i++) {
		const struct inject_word *word = &inject->words[i];
		struct span host, ports;
		int rc;

		if (!is_option(word, "to"))
			continue;
		rc = split_to(word->value, &host, &ports, err);
		if (rc)
			return rc;
		if (first && (ports.len != common->len || memcmp(ports.text, common->text, ports.len) != 0)) {
			error_set(err, -EINVAL, EXIT_USAGE, "--to %s and --to %s differ in their ports", first,
				  word->value);
			error_hint(err, "one rule has one set of ports: write a rules file with a rule for each");
			return -EINVAL;
		}
		first = word->value;
		*common = ports;
	}
	return 0;
}

/* A word that is no address may be the name of a preset. */
static bool is_preset(const struct inject *inject, const char *word)
{
	struct presets *presets;
	struct error ignored;
	bool found;

	if (strpbrk(word, ":[/") || strspn(word, "0123456789.") == strlen(word))
		return false;
	if (presets_load(inject->endpoints, &presets, &ignored) < 0)
		return false;
	found = presets_find(presets, word);
	presets_free(presets);
	return found;
}

/* The preset that --to names; it is one place, so it stands alone. */
static int find_preset(struct writer *w, const char **preset)
{
	const char *other = NULL;

	*preset = NULL;
	for (size_t i = 0; i < w->inject->count; i++) {
		const struct inject_word *word = &w->inject->words[i];

		if (!is_option(word, "to"))
			continue;
		if (!*preset && is_preset(w->inject, word->value))
			*preset = word->value;
		else
			other = word->value;
	}
	if (!*preset || !other)
		return 0;
	error_set(w->err, -EINVAL, EXIT_USAGE, "--to %s is a preset and stands alone, without --to %s", *preset, other);
	error_hint(w->err, "write a rules file with a rule for each");
	return -EINVAL;
}

static int write_hosts(struct writer *w)
{
	const char *preset;
	bool first = true;
	int rc = find_preset(w, &preset);

	if (rc)
		return rc;
	if (preset)
		return write_key(w, "      ", "endpoint", preset, "to", true);
	for (size_t i = 0; i < w->inject->count; i++) {
		struct span host, ports;

		if (!is_option(&w->inject->words[i], "to"))
			continue;
		rc = split_to(w->inject->words[i].value, &host, &ports, w->err);
		if (rc)
			return rc;
		if (first) {
			begin_line(w, "to");
			fputs("      hosts: [", w->out);
		}
		rc = write_item(w, first, host, "to");
		if (rc)
			return rc;
		first = false;
	}
	if (!first)
		fputs("]\n", w->out);
	return 0;
}

static int write_ports(struct writer *w)
{
	bool first = true, port_given = false;
	struct span common;
	int rc = common_ports(w->inject, &common, w->err);

	if (rc)
		return rc;
	for (size_t i = 0; i < w->inject->count; i++)
		port_given |= is_option(&w->inject->words[i], "port");
	if (!port_given && !common.len)
		return 0;
	if (port_given && common.len) {
		error_set(w->err, -EINVAL, EXIT_USAGE, "--port: --to names the port already");
		error_hint(w->err, "write either --to HOST:PORT or --to HOST --port PORT");
		return -EINVAL;
	}
	begin_line(w, port_given ? "port" : "to");
	fputs("      ports: [", w->out);
	if (common.len)
		rc = write_items(w, &first, common, "to");
	for (size_t i = 0; i < w->inject->count && !rc; i++) {
		const char *value = w->inject->words[i].value;

		if (is_option(&w->inject->words[i], "port"))
			rc = write_items(w, &first, (struct span){ value, strlen(value) }, "port");
	}
	fputs("]\n", w->out);
	return rc;
}

/* ---- the parts of the rule ---- */

static int write_section(struct writer *w, enum section section, const char *indent)
{
	for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
		bool given = false;

		for (size_t i = 0; i < w->inject->count; i++) {
			const struct inject_word *word = &w->inject->words[i];
			int rc;

			if (keys[k].section != section || !is_option(word, keys[k].option))
				continue;
			if (given && word->value)
				return error_set(w->err, -EINVAL, EXIT_USAGE, "--%s is given twice", word->option);
			if (given)
				continue;
			given = true;
			rc = write_key(w, indent, keys[k].key, word->value, word->option, true);
			if (rc)
				return rc;
		}
	}
	return 0;
}

/* What narrows a match no further than "everything" (--side alone) is for the parser to refuse. */
static bool names_nobody(const struct inject *inject)
{
	for (size_t i = 0; i < inject->count; i++) {
		if (is_option(&inject->words[i], "to") || is_option(&inject->words[i], "port"))
			return false;
		for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
			if (keys[k].section == IN_MATCH && is_option(&inject->words[i], keys[k].option))
				return false;
		}
	}
	return true;
}

/* Who is measured may be everybody: of one side, too. */
static bool filters_nobody(const struct inject *inject)
{
	for (size_t i = 0; i < inject->count; i++) {
		if (!is_option(&inject->words[i], "side"))
			return false;
	}
	return true;
}

static int unknown_fault(const char *word, struct error *err)
{
	const char *words[FAULT_WORDS + 1], *near;

	for (size_t i = 0; i < FAULT_WORDS; i++)
		words[i] = faults[i].word;
	words[FAULT_WORDS] = NULL;
	near = nearest_word(word, words);
	error_set(err, -EINVAL, EXIT_USAGE, "unknown fault '%s'", word);
	if (near)
		error_hint(err, "did you mean '%s'?", near);
	else
		error_hint(err, "faults are drop, delay, jitter, distribution, refuse, reset, accept-silence, "
				"tls-stall, duplicate, "
				"corrupt, reorder, half-open, rate, tokens, dns, break-after, status, body, hang, "
				"error-event, drop-done, garble, grpc, gpu-oom, call and errno, as in "
				"delay=5s");
	return -EINVAL;
}

static int given_twice(struct writer *w, const char *word)
{
	return error_set(w->err, -EINVAL, EXIT_USAGE, "%.*s is given twice", (int)strcspn(word, "="), word);
}

/* The fault word before `end` that begins as `text` does in its first `len` characters. */
static bool is_repeated(const struct inject *inject, size_t end, const char *text, size_t len)
{
	for (size_t i = 0; i < end; i++) {
		if (!inject->words[i].option && strncmp(inject->words[i].value, text, len) == 0)
			return true;
	}
	return false;
}

#define DEEPEST_INDENT 12

/*
 * The words that begin with `path`, as a map: "drop.burst.loss=2%" and "drop.burst.length=5" are a map `burst` in that of
 * `drop`. `fault` is answerable for each line. Which keys there are is for the parser to say.
 */
static int write_parts(struct writer *w, const char *path, size_t path_len, const char *indent, const char *fault)
{
	const struct inject *inject = w->inject;
	char deeper[32];
	int rc = 0;

	snprintf(deeper, sizeof(deeper), "%s  ", indent);
	for (size_t i = 0; i < inject->count && !rc; i++) {
		const char *text = inject->words[i].value, *key = text + path_len;
		size_t len;
		char name[32];

		if (inject->words[i].option || strncmp(text, path, path_len) != 0)
			continue;
		len = strcspn(key, ".=");
		snprintf(name, sizeof(name), "%.*s", (int)len, key);
		if (!len || strspn(key, "abcdefghijklmnopqrstuvwxyz-") != len)
			return error_set(w->err, -EINVAL, EXIT_USAGE, "%s: '%s' is no key", fault, name);
		if (key[len] != '.') {
			if (is_repeated(inject, i, text, path_len + len + 1))
				return given_twice(w, text);
			if (!key[len])
				return error_set(w->err, -EINVAL, EXIT_USAGE, "%s needs a value, as in %s=5", text,
						 text);
			rc = write_key(w, indent, name, key + len + 1, fault, false);
		} else if (!is_repeated(inject, i, text, path_len + len + 1)) {
			begin_line(w, fault);
			fprintf(w->out, "%s%s:\n", indent, name);
			if (strlen(indent) > DEEPEST_INDENT)
				return error_set(w->err, -EINVAL, EXIT_USAGE, "%s: no map is that deep", text);
			rc = write_parts(w, text, path_len + len + 1, deeper, fault);
		}
	}
	return rc;
}

enum given { NOT_GIVEN, AS_VALUE, AS_MAP };

static int write_fault(struct writer *w, const char *text, enum given *given)
{
	size_t len = strcspn(text, "=."), rest = strcspn(text, "=");
	const char *value = text[rest] ? text + rest + 1 : NULL;
	const enum given as = text[len] == '.' ? AS_MAP : AS_VALUE;
	char word[32];

	snprintf(word, sizeof(word), "%.*s", (int)len, text);
	for (size_t i = 0; i < FAULT_WORDS; i++) {
		const enum given before = given[i];

		if (strcmp(faults[i].word, word) != 0)
			continue;
		if (before == AS_VALUE || (before && before != as))
			return given_twice(w, faults[i].word);
		given[i] = as;
		if (as == AS_MAP) {
			if (before == AS_MAP)
				return 0; /* the first word of the map wrote them all */
			begin_line(w, faults[i].word);
			fprintf(w->out, "      %s:\n", faults[i].word);
			return write_parts(w, text, len + 1, "        ", faults[i].word);
		}
		if (!value && !faults[i].bare)
			return error_set(w->err, -EINVAL, EXIT_USAGE, "%s needs a value, as in %s", faults[i].word,
					 faults[i].example);
		/* "drop=true" is what "drop" stands for. */
		if (value && faults[i].bare && strcmp(value, faults[i].bare) == 0)
			value = NULL;
		return write_key(w, "      ", faults[i].word, value, faults[i].word, false);
	}
	return unknown_fault(word, w->err);
}

static int write_faults(struct writer *w)
{
	enum given given[FAULT_WORDS] = { NOT_GIVEN };
	size_t faults_given = 0;

	write_line(w, "    fault:");
	for (size_t i = 0; i < w->inject->count; i++) {
		int rc;

		if (w->inject->words[i].option)
			continue;
		faults_given++;
		rc = write_fault(w, w->inject->words[i].value, given);
		if (rc)
			return rc;
	}
	if (faults_given)
		return 0;
	error_set(w->err, -EINVAL, EXIT_USAGE, "inject needs a fault");
	error_hint(w->err, "such as delay=5s, drop=5%%, refuse=timeout or reset");
	return -EINVAL;
}

static int write_name(struct writer *w)
{
	const char *name = NULL;

	for (size_t i = 0; i < w->inject->count; i++) {
		if (!is_option(&w->inject->words[i], "name"))
			continue;
		if (name)
			return error_set(w->err, -EINVAL, EXIT_USAGE, "--name is given twice");
		name = w->inject->words[i].value;
	}
	return write_key(w, "  - ", "name", name ? name : "inject", "name", true);
}

static int check_end(const struct inject *inject, struct error *err)
{
	for (size_t i = 0; i < inject->count; i++) {
		if (is_option(&inject->words[i], "for"))
			return 0;
	}
	error_set(err, -EINVAL, EXIT_USAGE, "inject needs an end: --for");
	error_hint(err, "such as --for 2m: no fault is loaded without one");
	return -EINVAL;
}

/* What makes a rule of a match, for nobody to load. */
static int write_filter(struct writer *w)
{
	if (filters_nobody(w->inject))
		write_line(w, "      everything: true");
	write_line(w, "    fault: { drop: true }");
	write_line(w, "    duration: 1s");
	return 0;
}

static int write_rule(struct writer *w)
{
	int rc;

	if (!w->inject->filter && names_nobody(w->inject)) {
		error_set(w->err, -EINVAL, EXIT_USAGE, "inject needs to know whom to hit");
		error_hint(w->err, "--to, --port, --pid, --process, --cgroup, --container, --pod, --unit or --user, or "
				   "--everything");
		return -EINVAL;
	}
	write_line(w, "version: 1");
	write_line(w, "rules:");
	rc = write_name(w);
	if (rc)
		return rc;
	write_line(w, "    match:");
	rc = write_hosts(w);
	if (!rc)
		rc = write_ports(w);
	if (!rc)
		rc = write_section(w, IN_MATCH, "      ");
	if (!rc && w->inject->filter)
		return write_filter(w);
	if (!rc)
		rc = write_faults(w);
	if (!rc)
		rc = write_section(w, IN_RULE, "    ");
	if (!rc)
		rc = check_end(w->inject, w->err);
	return rc;
}

int inject_yaml(struct inject *inject, struct error *err)
{
	struct writer w = { .inject = inject, .err = err };
	int rc;

	w.out = open_memstream(&inject->yaml, &inject->yaml_len);
	if (!w.out)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	rc = write_rule(&w);
	fclose(w.out);
	return rc;
}

/* "command line:7:15: text" becomes "--for: text" when an option wrote line 7. */
static void point_at_word(const struct inject *inject, struct error *err)
{
	unsigned int line, column;
	int used = 0;
	const char *origin;
	char text[sizeof(err->text)], buf[64];
	bool option = true;

	if (sscanf(err->text, INJECT_FILE ":%u:%u: %n", &line, &column, &used) != 2 || !used)
		return;
	if (line == 0 || line > inject->lines)
		return;
	snprintf(text, sizeof(text), "%s", err->text + used);
	origin = inject->origin[line - 1];
	if (!origin) {
		snprintf(err->text, sizeof(err->text), "%s", text);
		return;
	}
	for (size_t i = 0; i < FAULT_WORDS; i++)
		option &= strcmp(faults[i].word, origin) != 0;
	origin_text(origin, option, buf, sizeof(buf));
	snprintf(err->text, sizeof(err->text), "%s: %.*s", buf, (int)(sizeof(text) - sizeof(buf) - 2), text);
}

int inject_parse(const struct inject *inject, struct rules **rules, struct error *err)
{
	const struct rules_options options = { .endpoints = inject->endpoints };
	int rc = rules_parse(INJECT_FILE, inject->yaml, inject->yaml_len, &options, rules, err);

	if (rc < 0)
		point_at_word(inject, err);
	return rc;
}
