// SPDX-License-Identifier: GPL-2.0-only
/* What webhooks are told, in the form that each receiver wants. */
#include <stdlib.h>
#include <string.h>

#include "user/base/output.h"
#include "user/experiment/webhook_internal.h"
#include "user/findings/report.h"
#include "user/findings/report_internal.h"

#define JIRA_SUMMARY 250 /* Jira takes 255 */

/* Slack reads <!channel> and links in text: what stands between < and > must not. */
static void print_slack(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '&')
			fputs("&amp;", out);
		else if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '>')
			fputs("&gt;", out);
		else
			putc(*text, out);
	}
}

static void print_plain(FILE *out, const char *text)
{
	fputs(text, out);
}

struct words {
	FILE *out;
	void (*print)(FILE *out, const char *text);
};

static void print_advice(void *to, const char *sentence)
{
	const struct words *words = to;

	fputs("\n- ", words->out);
	words->print(words->out, sentence);
}

/* Verdict, experiment, where, and what to improve; a line each. */
static char *make_text(const struct findings_run *run, void (*print)(FILE *out, const char *text))
{
	char *text = NULL, sentence[1024], tail[64];
	struct words words = { .print = print };
	size_t size;

	words.out = open_memstream(&text, &size);
	if (!words.out)
		return NULL;
	report_sentence(run, sentence, sizeof(sentence));
	print(words.out, sentence);
	fputs("\n", words.out);
	print(words.out, run->experiment);
	fputs(run->title[0] ? ": " : "", words.out);
	print(words.out, run->title);
	snprintf(tail, sizeof(tail), "\nrun %lld", (long long)run->id);
	fputs(tail, words.out);
	fputs(run->environment[0] ? " in " : "", words.out);
	print(words.out, run->environment);
	fputs(" on ", words.out);
	print(words.out, run->host);
	fputs(run->operator[0] ? ", on call: " : "", words.out);
	print(words.out, run->operator);
	report_advice(run, print_advice, &words);
	if (fclose(words.out)) {
		free(text);
		return NULL;
	}
	return text;
}

static bool write_slack(struct json *json, const struct findings_run *run)
{
	char *text = make_text(run, print_slack);

	if (!text)
		return false;
	json_open_object(json, NULL);
	json_text(json, "text", text);
	json_close_object(json);
	free(text);
	return true;
}

static bool write_jira(struct json *json, const struct webhook *webhook, const struct findings_run *run)
{
	char *text = make_text(run, print_plain), summary[JIRA_SUMMARY], sentence[1024], whole[1400];

	if (!text)
		return false;
	report_sentence(run, sentence, sizeof(sentence));
	snprintf(whole, sizeof(whole), "%s: %s", run->experiment, sentence);
	text_clean(summary, sizeof(summary), whole);
	json_open_object(json, NULL);
	json_open_object(json, "fields");
	json_open_object(json, "project");
	json_text(json, "key", webhook->project.text);
	json_close_object(json);
	json_open_object(json, "issuetype");
	json_text(json, "name", webhook->issue_type.text ? webhook->issue_type.text : "Bug");
	json_close_object(json);
	json_text(json, "summary", summary);
	json_text(json, "description", text);
	json_open_array(json, "labels");
	json_text(json, NULL, "chaosbpf");
	json_close_array(json);
	json_close_object(json);
	json_close_object(json);
	free(text);
	return true;
}

static bool write_plain(struct json *json, const struct findings_run *run)
{
	json_open_object(json, NULL);
	json_count(json, "run", (uint64_t)run->id);
	report_json_verdict(run, json);
	report_json_whose(run, json, json_text);
	json_text(json, "host", run->host);
	json_number(json, "started_at", run->started_s);
	report_json_advice(run, json);
	json_close_object(json);
	return true;
}

char *webhook_body(const struct webhook *webhook, const struct findings_run *run)
{
	char *body = NULL;
	struct json json;
	size_t size;
	FILE *out = open_memstream(&body, &size);
	bool complete;

	if (!out)
		return NULL;
	json_begin(&json, out, true);
	complete = webhook->shape == WEBHOOK_SLACK  ? write_slack(&json, run)
		   : webhook->shape == WEBHOOK_JIRA ? write_jira(&json, webhook, run)
						    : write_plain(&json, run);
	if (fclose(out) || !complete) {
		free(body);
		return NULL;
	}
	return body;
}
