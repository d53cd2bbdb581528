/* Fuzzes the parsers of paths and header fields of HTTP clients. */
#include <stdlib.h>

#include "aggregator/api/http.h"
#include "base/metrics.h"
#include "base/obj.h"
#include "httpd/encode.h"
#include "httpd/http_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
path(char *text)
{
    size_t before = strlen(text), after = mrd_http_unescape(text);
    http_params params;

    MRD_ASSERT(after == strlen(text) && after <= before);
    if (!mrd_http_path_plain(text))
        return;
    MRD_ASSERT(strstr(text, "/../") == NULL && strstr(text, "//") == NULL && text[0] == '/');
    for (size_t i = 0; i < mrd_http_n_routes; i++) {
        if (!mrd_http_route_match(mrd_http_routes[i].path, text, &params))
            continue;
        for (size_t k = 0; k < params.n; k++)
            MRD_ASSERT(params.values[k].p >= text && params.values[k].len > 0 &&
                       params.values[k].p + params.values[k].len <= text + after);
    }
}

static void
range(const char *text)
{
    static const uint64_t sizes[] = { 0, 1, 10, 1ull << 40, UINT64_MAX };

    for (size_t i = 0; i < MRD_COUNT(sizes); i++) {
        uint64_t from = 0, len = 0;

        if (mrd_http_range(text, sizes[i], &from, &len) == 1)
            MRD_ASSERT(len > 0 && from < sizes[i] && len <= sizes[i] - from);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    mrd_str token;

    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    range(text);
    (void) mrd_http_etag_listed(text, "\"a-b\"", true);
    (void) mrd_http_etag_listed(text, "\"a-b\"", false);
    token = mrd_http_bearer(text);
    MRD_ASSERT(memchr(token.p, ' ', token.len) == NULL);
    (void) mrd_encode_choose(text);
    (void) mrd_metrics_text_wants_open(text);
    path(text);
    free(text);
    return 0;
}
