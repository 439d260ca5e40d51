// SPDX-License-Identifier: GPL-2.0-only
/* The forms of a report, and those that are short: JSON is report_json.c's, HTML report_html.c's. */
#include "user/findings/report_internal.h"

void report_print(const struct findings_run *run, enum report_form form, FILE *out)
{
	static void (*const forms[])(const struct findings_run *run, FILE *out) = {
		[REPORT_TEXT] = report_text,   [REPORT_JSON] = report_json, [REPORT_MARKDOWN] = report_markdown,
		[REPORT_JUNIT] = report_junit, [REPORT_HTML] = report_html,
	};

	forms[form](run, out);
}
