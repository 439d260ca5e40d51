// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the bodies of answers, and events of streams, say that are made up. As providers say it: clients look for the status,
 * for `retry-after`, and for the code or type in here. Texts are the shortest of the right shape, since they have to fit into
 * the server's answer.
 */
#include "user/tables/answer_body.h"

#include <stdarg.h>
#include <stdio.h>

#define SECOND    1000000000ULL
#define OK_STATUS 200

struct word {
	unsigned int status;
	const char *word;
};

/* Of all tables the last entry is for all others. */
static const struct word reasons[] = {
	{ 200, "OK" },
	{ 400, "Bad Request" },
	{ 401, "Unauthorized" },
	{ 402, "Payment Required" },
	{ 403, "Forbidden" },
	{ 404, "Not Found" },
	{ 408, "Request Timeout" },
	{ 409, "Conflict" },
	{ 413, "Payload Too Large" },
	{ 422, "Unprocessable Entity" },
	{ 424, "Failed Dependency" },
	{ 429, "Too Many Requests" },
	{ 500, "Internal Server Error" },
	{ 501, "Not Implemented" },
	{ 502, "Bad Gateway" },
	{ 503, "Service Unavailable" },
	{ 504, "Gateway Timeout" },
	{ 529, "Overloaded" },
	{ 0, "Error" },
};

static const struct word anthropic_types[] = {
	{ 400, "invalid_request_error" }, { 401, "authentication_error" },
	{ 403, "permission_error" },      { 404, "not_found_error" },
	{ 413, "request_too_large" },     { 429, "rate_limit_error" },
	{ 529, "overloaded_error" },      { 0, "api_error" },
};

static const struct word google_statuses[] = {
	{ 400, "INVALID_ARGUMENT" },   { 401, "UNAUTHENTICATED" }, { 403, "PERMISSION_DENIED" }, { 404, "NOT_FOUND" },
	{ 429, "RESOURCE_EXHAUSTED" }, { 503, "UNAVAILABLE" },     { 504, "DEADLINE_EXCEEDED" }, { 0, "INTERNAL" },
};

static const struct word aws_types[] = {
	{ 400, "ValidationException" },         { 403, "AccessDeniedException" }, { 404, "ResourceNotFoundException" },
	{ 408, "ModelTimeoutException" },       { 424, "ModelErrorException" },   { 429, "ThrottlingException" },
	{ 503, "ServiceUnavailableException" }, { 0, "InternalServerException" },
};

static const struct word llama_types[] = {
	{ 400, "invalid_request_error" },
	{ 401, "authentication_error" },
	{ 403, "permission_error" },
	{ 404, "not_found_error" },
	{ 501, "not_supported_error" },
	{ 503, "unavailable_error" },
	{ 0, "server_error" },
};

static const struct word vllm_types[] = {
	{ 400, "BadRequestError" },
	{ 404, "NotFoundError" },
	{ 0, "InternalServerError" },
};

static const struct word tgi_types[] = {
	{ 422, "validation" },
	{ 424, "generation" },
	{ 429, "overloaded" },
	{ 0, "incomplete_generation" },
};

static const char *word_of(const struct word *words, unsigned int status)
{
	while (words->status && words->status != status)
		words++;
	return words->word;
}

const char *answer_reason(unsigned int status)
{
	return word_of(reasons, status);
}

const char *answer_error_type(const struct fault *f)
{
	return f->as == PROVIDER_BEDROCK ? word_of(aws_types, f->status) : NULL;
}

void answer_put(struct answer_text *t, const char *fmt, ...)
{
	const size_t room = sizeof(t->text) - t->length;
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(t->text + t->length, room, fmt, ap);
	va_end(ap);
	t->length += len < 0 ? 0 : (size_t)len < room ? (size_t)len : room - 1;
}

static unsigned long long seconds_of(const struct fault *f)
{
	return f->retry_after_ns >= SECOND ? f->retry_after_ns / SECOND : 1;
}

static void put_any(struct answer_text *t, const struct fault *f)
{
	answer_put(t, "{\"error\":{\"message\":\"%s\",\"type\":null,\"param\":null,\"code\":%u}}",
		   answer_reason(f->status), f->status);
}

static void put_openai(struct answer_text *t, const struct fault *f)
{
	if (f->status == 429)
		answer_put(t,
			   "{\"error\":{\"message\":\"Rate limit reached for requests. Please try again in %llus.\","
			   "\"type\":\"requests\",\"param\":null,\"code\":\"rate_limit_exceeded\"}}",
			   seconds_of(f));
	else if (f->status >= 500)
		answer_put(t, "{\"error\":{\"message\":\"The server had an error while processing your request.\","
			      "\"type\":\"server_error\",\"param\":null,\"code\":null}}");
	else
		answer_put(t,
			   "{\"error\":{\"message\":\"%s\",\"type\":\"invalid_request_error\",\"param\":null,"
			   "\"code\":%s}}",
			   answer_reason(f->status), f->status == 401 ? "\"invalid_api_key\"" : "null");
}

static void put_openai_quota(struct answer_text *t, const struct fault *f)
{
	(void)f;
	answer_put(t, "{\"error\":{\"message\":\"You exceeded your current quota, please check your plan and billing "
		      "details.\",\"type\":\"insufficient_quota\",\"param\":null,\"code\":\"insufficient_quota\"}}");
}

static void put_azure(struct answer_text *t, const struct fault *f)
{
	if (f->status == 429)
		answer_put(
			t,
			"{\"error\":{\"code\":\"429\",\"message\":\"Requests to the ChatCompletions_Create Operation "
			"have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after "
			"%llu seconds.\"}}",
			seconds_of(f));
	else
		answer_put(t, "{\"error\":{\"code\":\"%u\",\"message\":\"%s\"}}", f->status, answer_reason(f->status));
}

static void put_anthropic(struct answer_text *t, const struct fault *f)
{
	answer_put(t, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"%s\"},\"request_id\":null}",
		   word_of(anthropic_types, f->status), answer_reason(f->status));
}

static void put_gemini(struct answer_text *t, const struct fault *f)
{
	answer_put(t, "{\"error\":{\"code\":%u,\"message\":\"%s\",\"status\":\"%s\"}}", f->status,
		   answer_reason(f->status), word_of(google_statuses, f->status));
}

static void put_bedrock(struct answer_text *t, const struct fault *f)
{
	answer_put(t, "{\"message\":\"%s\"}",
		   f->status == 429 ? "Too many requests, please wait before trying again." : answer_reason(f->status));
}

static void put_llama(struct answer_text *t, const struct fault *f)
{
	answer_put(t, "{\"error\":{\"code\":%u,\"message\":\"%s\",\"type\":\"%s\"}}", f->status,
		   f->status == 503 ? "Loading model" : answer_reason(f->status), word_of(llama_types, f->status));
}

static void put_vllm(struct answer_text *t, const struct fault *f)
{
	answer_put(t, "{\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":null,\"code\":%u}}",
		   answer_reason(f->status), word_of(vllm_types, f->status), f->status);
}

static void put_tgi(struct answer_text *t, const struct fault *f)
{
	answer_put(t, "{\"error\":\"%s\",\"error_type\":\"%s\"}",
		   f->status == 429 ? "Model is overloaded" : answer_reason(f->status), word_of(tgi_types, f->status));
}

static void (*const errors[])(struct answer_text *t, const struct fault *f) = {
	[PROVIDER_ANY] = put_any,
	[PROVIDER_OPENAI] = put_openai,
	[PROVIDER_OPENAI_QUOTA] = put_openai_quota,
	[PROVIDER_AZURE] = put_azure,
	[PROVIDER_ANTHROPIC] = put_anthropic,
	[PROVIDER_GEMINI] = put_gemini,
	[PROVIDER_BEDROCK] = put_bedrock,
	[PROVIDER_LLAMA] = put_llama,
	[PROVIDER_VLLM] = put_vllm,
	[PROVIDER_TGI] = put_tgi,
};
_Static_assert(sizeof(errors) / sizeof(errors[0]) == PROVIDER_COUNT, "an error of each provider");

/* Bytes that are no JSON, no UTF-8 and not of a number. */
static void put_garbage(struct answer_text *t)
{
	for (unsigned int i = 0; i < 96; i++)
		t->text[t->length++] = (char)(0x80 | (i * 167 % 127));
}

static void put_html(struct answer_text *t, const struct fault *f)
{
	const unsigned int status = f->status ? f->status : OK_STATUS;

	answer_put(t,
		   "<html>\r\n<head><title>%u %s</title></head>\r\n<body>\r\n<center><h1>%u %s</h1></center>\r\n"
		   "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n",
		   status, answer_reason(status), status, answer_reason(status));
}

void answer_body(struct answer_text *t, const struct fault *f)
{
	switch (f->body) {
	case BODY_JSON:
		errors[f->as](t, f);
		break;
	case BODY_GARBAGE:
		put_garbage(t);
		break;
	case BODY_TRUNCATED:
		answer_put(t, "{\"id\":\"chatcmpl-0\",\"object\":\"chat.completion\",\"choices\":[{\"index\":0,"
			      "\"message\":{\"role\":\"assistant\",\"content\":\"The answer to your ");
		break;
	case BODY_HTML:
		put_html(t, f);
		break;
	default:
		break;
	}
}

void answer_brief_body(struct answer_text *t, const struct fault *f, bool barely)
{
	if (f->body == BODY_JSON && barely)
		answer_put(t, "{\"error\":{\"code\":%u}}", f->status);
	else if (f->body == BODY_JSON)
		answer_put(t, "{\"error\":{\"message\":\"%s\",\"code\":%u}}", answer_reason(f->status), f->status);
	else
		answer_body(t, f);
}

/* Anthropic names its events, OpenAI and what speaks like it has nothing but data. */
const char *stream_error_text(enum stream_error error, unsigned int brief)
{
	static const char *const texts[STREAM_ERROR_COUNT][STREAM_ENDINGS] = {
		[STREAM_ERROR_OVERLOADED] = {
			"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
			"\"message\":\"Overloaded\"}}\n\n",
			"event:error\ndata:{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
			"",
		},
		[STREAM_ERROR_SERVER] = {
			"data: {\"error\":{\"message\":\"The server had an error while processing your request.\","
			"\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n",
			"data: {\"error\":{\"message\":\"\",\"type\":\"server_error\"}}\n\n",
			"data:{\"error\":{\"code\":500}}\n\n",
		},
		[STREAM_ERROR_RATE_LIMIT] = {
			"data: {\"error\":{\"message\":\"Rate limit reached for requests.\",\"type\":\"requests\","
			"\"param\":null,\"code\":\"rate_limit_exceeded\"}}\n\n",
			"data: {\"error\":{\"code\":\"rate_limit_exceeded\"}}\n\n",
			"data:{\"error\":{\"code\":429}}\n\n",
		},
	};

	return texts[error][brief];
}
