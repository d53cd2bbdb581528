/*
 * aggregator/http_parse.h - what clients write, taken apart: paths, routes, ranges, entity tags,
 * tokens. Pure functions over text from outside, so that they can be fuzzed and tested as tables
 * (RFC 9110). Inside aggregator/ only.
 */
#ifndef MRD_AGGREGATOR_HTTP_PARSE_H
#define MRD_AGGREGATOR_HTTP_PARSE_H

#include "base/buf.h"

enum { HTTP_PATH_MAX = 2048, HTTP_PARAMS_MAX = 4 };

/* {name} parts of a route and what the path has there; all borrow. */
typedef struct {
    mrd_str names[HTTP_PARAMS_MAX], values[HTTP_PARAMS_MAX];
    size_t n;
} http_params;

/* The path of a request's target: of "http://host:port/path" what is behind the authority, which
 * counts instead of the field Host; every other form is the path itself, and the authority is empty
 * (RFC 9112, 3.2). */
const char *mrd_http_target(const char *target, mrd_str *ret_authority);
/* Whether it has only what a host with a port may have. */
bool mrd_http_host_valid(const char *host);
/* False for components that climb, are empty, or that no name of ours has: such a path never
 * reaches a handler. */
bool mrd_http_path_plain(const char *path);
/* Decodes %XX in place and returns the new length. %00 stays as it is: a text in C would end there
 * and name something else. */
size_t mrd_http_unescape(char *text);
/* "/a/{x}/b", "/a/{rest*}". */
bool mrd_http_route_match(const char *pattern, const char *path, http_params *params);
mrd_str mrd_http_params_value(const http_params *params,
                              const char *name); /* "" when there is none */

/* "bytes=a-b", "bytes=a-", "bytes=-n": one range of a body of `size` bytes. 1 satisfiable, -1 not;
 * 0 to be ignored, as all else is: several ranges, other units, nonsense. */
int mrd_http_range(const char *text, uint64_t size, uint64_t *ret_from, uint64_t *ret_len);

/* True when a list of entity tags (If-None-Match, If-Match; NULL: no such field) is "*" or has etag
 * (with its quotes). weak: W/"x" equals "x". */
bool mrd_http_etag_listed(const char *list, const char *etag, bool weak);

/* The token of an Authorization field, "" when it has none. */
mrd_str mrd_http_bearer(const char *authorization);

/*
 * Whether a Host field may be ours where no token proves who asks: a web page whose name was pointed
 * at this machine (DNS rebinding) sends its own name. NULL (HTTP/1.0), an address in digits,
 * "localhost" and what ends with ".localhost" are; else one of `names`, separated by commas.
 */
bool mrd_http_host_ours(const char *host, const char *names);
/*
 * Whether what changes something may come from where a browser says it does: no Origin and no
 * Sec-Fetch-Site (no browser), the same origin, or typed by the user ("none"). `host`: the Host
 * field, NULL when there was none.
 */
bool mrd_http_origin_same(const char *origin, const char *fetch_site, const char *host);
/* "application/json", whatever its case, with or without parameters. */
bool mrd_http_type_json(const char *content_type);

#endif
