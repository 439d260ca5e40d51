// SPDX-License-Identifier: GPL-2.0-only
/* user/observe/histogram.c, bpf/histogram.h, user/observe/observe_table.c, and what user/observe/observe_show.c and its like make of rows */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/base/percentile.h"
#include "user/observe/histogram.h"
#include "user/observe/observe.h"
#include "user/observe/observe_show.h"
#include "user/observe/publish.h"

/* As the kernel does. */
static void record(struct histogram *h, uint64_t value)
{
	h->sum += value;
	h->max = value > h->max ? value : h->max;
	h->counts[histogram_bucket(value)]++;
}

Test(observe, buckets_meet)
{
	cr_assert_eq(histogram_least(0), 0);
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		const uint64_t least = histogram_least(i), next = histogram_least(i + 1);

		cr_assert_lt(least, next);
		cr_assert_eq(histogram_bucket(least), i);
		cr_assert_eq(histogram_bucket(next - 1), i);
		cr_assert((double)(next - 1 - least) / 2 <= HISTOGRAM_ERROR * (double)least, "bucket %u is too wide",
			  i);
	}
	cr_assert_eq(histogram_least(HISTOGRAM_BUCKETS), HISTOGRAM_MAX + 1);
	cr_assert_eq(histogram_bucket(HISTOGRAM_MAX), HISTOGRAM_BUCKETS - 1);
	cr_assert_eq(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

Test(observe, percentiles_are_within_the_error)
{
	static struct histogram h;
	static uint64_t values[10000];
	const size_t count = sizeof(values) / sizeof(values[0]);

	srand(7);
	for (size_t i = 0; i < count; i++) {
		values[i] = (uint64_t)exp((double)rand() / RAND_MAX * 20);
		record(&h, values[i]);
	}
	qsort(values, count, sizeof(values[0]), by_size);
	cr_assert_eq(histogram_count(&h), count);
	for (double share = 0.001; share < 1; share += 0.001) {
		const double exact = (double)values[percentile_rank(count, 100 * share) - 1],
			     said = histogram_percentile(&h, share);

		cr_assert(fabs(said - exact) <= exact * HISTOGRAM_ERROR + 0.5, "p%g: %g for %g", 100 * share, said,
			  exact);
	}
	cr_assert_eq(histogram_max(&h), (double)values[count - 1]);
	cr_assert_leq(histogram_percentile(&h, 1), histogram_max(&h));
}

Test(observe, nothing_counted_is_no_number)
{
	static const struct histogram h;

	cr_assert(isnan(histogram_percentile(&h, 0.5)));
	cr_assert(isnan(histogram_max(&h)));
	cr_assert(isnan(histogram_mean(&h)));
}

Test(observe, what_came_between_two_readings)
{
	static struct histogram before, after, between;

	record(&before, 900000);
	record(&before, 10);
	after = before;
	record(&after, 100);
	record(&after, 120);
	histogram_since(&between, &after, &before);
	cr_assert_eq(histogram_count(&between), 2);
	cr_assert_eq(between.sum, 220);
	/* The largest of all was earlier: of these it is known as well as any percentile. */
	cr_assert(fabs(histogram_max(&between) - 120) <= 120 * HISTOGRAM_ERROR + 0.5);
	record(&after, 1000000);
	histogram_since(&between, &after, &before);
	cr_assert_eq(histogram_max(&between), 1000000);
}

/* Two processes of two cgroups that call one endpoint, a server, and what found no room. */
static struct observe_row *some_rows(size_t *count)
{
	struct observe_row *rows = calloc(5, sizeof(*rows));
	static const uint8_t address[16] = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 7 };

	rows[0].connections = 2;
	for (size_t i = 1; i <= 2; i++) {
		struct observe_key *key = &rows[i].key;

		key->side = CHAOS_SIDE_CLIENT;
		key->cgroup_id = i;
		key->port = 6333;
		memcpy(key->address, address, sizeof(address));
		snprintf(key->comm, sizeof(key->comm), "app\"%zu", i);
		rows[i].connections = i;
		rows[i].requests = 10 * i;
		rows[i].failures[OBSERVE_REFUSED] = 1;
		record(&rows[i].times[OBSERVE_RESPONSE], 1000 * i);
	}
	rows[3].key.side = CHAOS_SIDE_SERVER;
	rows[3].key.port = 8080;
	rows[3].requests = 1;
	rows[3].unanswered = 1;
	rows[3].status[5] = 2;
	*count = 5; /* the last is empty */
	return rows;
}

Test(observe, lines_of_one_endpoint_are_one)
{
	struct observe_lines lines;
	struct observe_table table;
	char text[OBSERVE_ENDPOINT_LEN];

	table.rows = some_rows(&table.count);
	cr_assert_eq(observe_group(&table, OBSERVE_BY_ENDPOINT, &lines), 0);
	cr_assert_eq(lines.count, 3);
	cr_assert_str_eq(observe_endpoint(&lines.rows[0].key, text), ":8080");
	cr_assert_eq(observe_failed_requests(&lines.rows[0]), 3);
	cr_assert_str_eq(observe_endpoint(&lines.rows[1].key, text), "10.0.0.7:6333");
	cr_assert_eq(lines.rows[1].requests, 30);
	cr_assert_eq(lines.rows[1].connections, 3);
	cr_assert_eq(observe_failures(&lines.rows[1]), 2);
	cr_assert_eq(histogram_count(&lines.rows[1].times[OBSERVE_RESPONSE]), 2);
	cr_assert_str_eq(observe_show_process(&lines.rows[2].key), "(rest)");
	observe_lines_free(&lines);
	cr_assert_eq(observe_group(&table, OBSERVE_BY_PROCESS, &lines), 0);
	cr_assert_eq(lines.count, 4);
	observe_lines_free(&lines);
	observe_table_free(&table);
}

static char *prometheus(const struct observe_lines *lines)
{
	const struct observe_view view = { .by = OBSERVE_EACH, .lines = lines };
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	observe_show_prometheus(out, &view);
	fclose(out);
	return text;
}

Test(observe, prometheus)
{
	struct observe_lines lines = { 0 };
	char *text;

	lines.rows = some_rows(&lines.count);
	text = prometheus(&lines);
	cr_assert(strstr(text, "# TYPE chaosbpf_observe_requests_total counter\n"));
	cr_assert(strstr(text, "chaosbpf_observe_requests_total{side=\"client\",process=\"app\\\"1\",cgroup=\"id 1\","
			       "endpoint=\"10.0.0.7:6333\"} 10\n"),
		  "%s", text);
	cr_assert(strstr(text, "reason=\"refused\"} 1\n"));
	cr_assert(strstr(text, "status=\"5xx\"} 2\n"));
	/* 1000 us lie below 1024, 2000 do not. */
	cr_assert(strstr(text, "endpoint=\"10.0.0.7:6333\",le=\"0.001024\"} 1\n"));
	cr_assert(strstr(text, "endpoint=\"10.0.0.7:6333\",le=\"0.000512\"} 0\n"));
	cr_assert(strstr(text, "endpoint=\"10.0.0.7:6333\",le=\"+Inf\"} 1\n"));
	free(text);
	observe_lines_free(&lines);
}

Test(observe, prometheus_is_bounded)
{
	struct observe_lines lines = { .count = 1000 };
	uint64_t sum = 0;
	unsigned int lines_seen = 0;
	char *text;

	lines.rows = calloc(lines.count, sizeof(*lines.rows));
	for (size_t i = 0; i < lines.count; i++) {
		lines.rows[i].key.side = CHAOS_SIDE_SERVER;
		lines.rows[i].key.port = (uint16_t)(i + 1);
		lines.rows[i].requests = 1;
	}
	text = prometheus(&lines);
	for (const char *at = text; (at = strstr(at, "\nchaosbpf_observe_requests_total{")); at++) {
		lines_seen++;
		sum += strtoull(strchr(at, '}') + 1, NULL, 10);
	}
	cr_assert_eq(lines_seen, 257);
	cr_assert_eq(sum, 1000);
	free(text);
	observe_lines_free(&lines);
}

Test(observe, a_file_for_collectors)
{
	char dir[] = "/tmp/chaosbpf-test-XXXXXX", path[64], text[8] = "";
	struct error err;
	struct stat st;
	FILE *file;

	cr_assert(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/x.prom", dir);
	cr_assert_eq(publish_file(path, "one\n", 4, false, &err), 0);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0600);
	chmod(path, 0640);
	cr_assert_eq(publish_file(path, "two\n", 4, false, &err), 0);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0640);
	cr_assert_eq(publish_file(path, "two\n", 4, true, &err), 0);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0644);
	file = fopen(path, "r");
	cr_assert(file && fgets(text, sizeof(text), file));
	fclose(file);
	cr_assert_str_eq(text, "two\n");
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(rmdir(dir), 0, "something else was left there");
	cr_assert_lt(publish_file("/nowhere/at/all", "x", 1, false, &err), 0);
}
