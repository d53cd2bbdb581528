/*
 * httpd/http_parse.h - parses text that clients send: paths, routes, ranges, entity tags,
 * tokens. Pure functions, so that they can be fuzzed and tested as tables (RFC 9110). Internal to
 * aggregator/.
 */
#ifndef MRD_HTTPD_HTTP_PARSE_H
#define MRD_HTTPD_HTTP_PARSE_H

#include "base/buf.h"

enum { HTTP_PATH_MAX = 2048, HTTP_PARAMS_MAX = 4 };

/* The {name} parts of a route with their values from the path. All borrow. */
typedef struct {
    mrd_str names[HTTP_PARAMS_MAX], values[HTTP_PARAMS_MAX];
    size_t n;
} http_params;

/* Returns the path of a request's target. For "http://host:port/path" it is the part after the
 * authority, and the authority replaces the field Host. Any other form is the path itself, and the
 * authority is empty (RFC 9112, 3.2). */
const char *mrd_http_target(const char *target, mrd_str *ret_authority);
/* Returns true if the text has only characters of a host with a port. */
bool mrd_http_host_valid(const char *host);
/* Returns false if a component is "..", is empty, or cannot be a name of this API. Such a path
 * never reaches a handler. */
bool mrd_http_path_plain(const char *path);
/* Decodes %XX in place and returns the new length. Leaves %00 as it is, because a C string would
 * end there and name another object. */
size_t mrd_http_unescape(char *text);
/* "/a/{x}/b", "/a/{rest*}". */
bool mrd_http_route_match(const char *pattern, const char *path, http_params *params);
mrd_str mrd_http_params_value(const http_params *params,
                              const char *name); /* "" when there is none */

/* Parses one range of a body of `size` bytes: "bytes=a-b", "bytes=a-", "bytes=-n". Returns 1 if it
 * can be satisfied, -1 if not, and 0 if it must be ignored: several ranges, other units, or invalid
 * text. */
int mrd_http_range(const char *text, uint64_t size, uint64_t *ret_from, uint64_t *ret_len);

/* Returns true if a list of entity tags (If-None-Match, If-Match; NULL if absent) is "*" or
 * contains etag (with its quotes). With `weak`, W/"x" equals "x". */
bool mrd_http_etag_listed(const char *list, const char *etag, bool weak);

/* Returns the token of an Authorization field, "" if it has none. */
mrd_str mrd_http_bearer(const char *authorization);

/*
 * Decides whether a Host field is acceptable where no token identifies the caller. If the name of a
 * web page was pointed at this machine (DNS rebinding), the page sends that name. Accepts NULL
 * (HTTP/1.0), numeric addresses, "localhost", names that end with ".localhost", and the
 * comma-separated `names`.
 */
bool mrd_http_host_ours(const char *host, const char *names);
/*
 * Decides whether a browser may send a request that changes something. Accepts requests without
 * Origin and Sec-Fetch-Site (no browser), requests of the same origin, and requests that the user
 * typed ("none"). `host` is the Host field, NULL if absent.
 */
bool mrd_http_origin_same(const char *origin, const char *fetch_site, const char *host);
/* Accepts "application/json" in any case, with or without parameters. */
bool mrd_http_type_json(const char *content_type);

#endif
