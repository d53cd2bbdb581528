/*
 * httpd/http_parse.h - parses text that clients send: paths, routes, ranges, entity tags,
 * tokens. Pure functions, so that they can be fuzzed and tested as tables (RFC 9110). Internal to
 * aggregator/.
 */
#ifndef MRD_HTTPD_HTTP_PARSE_H
#define MRD_HTTPD_HTTP_PARSE_H

#include "base/buf.h"

enum { HTTP_PATH_MAX = 2048, HTTP_PARAMS_MAX = 4 };

/* The {name} parts of a route and their values in the path. The texts are borrowed from both. */
typedef struct {
    mrd_str names[HTTP_PARAMS_MAX], values[HTTP_PARAMS_MAX];
    size_t n;
} http_params;

/* Returns the path of a request's target. The target "http://host:port/path" has an authority,
 * which replaces the Host field. Any other target is the path itself, and the authority is empty
 * (RFC 9112, 3.2). */
const char *mrd_http_target(const char *target, mrd_str *ret_authority);
/* Returns true if the text has only characters that are allowed in a host with a port. */
bool mrd_http_host_valid(const char *host);
/* Returns false if a component of the path is "..", is empty, or cannot be a name in this API. Such
 * a path never reaches a handler. */
bool mrd_http_path_plain(const char *path);
/* Decodes %XX in place and returns the new length. %00 stays as it is, because a C string would end
 * there and name another object. */
size_t mrd_http_unescape(char *text);
/* "/a/{x}/b", "/a/{rest*}". */
bool mrd_http_route_match(const char *pattern, const char *path, http_params *params);
mrd_str mrd_http_params_value(const http_params *params,
                              const char *name); /* "" when there is none */

/* Parses one range of a body of `size` bytes: "bytes=a-b", "bytes=a-", "bytes=-n". Returns 1 if it
 * can be satisfied, -1 if not, and 0 if it must be ignored: several ranges, other units, or invalid
 * text. */
int mrd_http_range(const char *text, uint64_t size, uint64_t *ret_from, uint64_t *ret_len);

/* Returns true if a list of entity tags is "*" or contains etag (with its quotes). The list is from
 * If-None-Match or If-Match; NULL if absent. With `weak`, W/"x" equals "x". */
bool mrd_http_etag_listed(const char *list, const char *etag, bool weak);

/* Returns the bearer token of an Authorization field, "" if it has none. */
mrd_str mrd_http_bearer(const char *authorization);

/*
 * Decides whether a Host field is acceptable if no token identifies the caller. This prevents DNS
 * rebinding: if a web page's name was redirected to this machine, the browser sends that name as
 * Host. Accepts NULL (HTTP/1.0), numeric addresses, "localhost", names that end with ".localhost",
 * and the comma-separated `names`.
 */
bool mrd_http_host_ours(const char *host, const char *names);
/*
 * Decides whether to accept a request that changes something, because a foreign web page may have
 * made it. Accepts requests without Origin and Sec-Fetch-Site (not from a browser), requests of the
 * same origin, and requests that the user typed ("none"). `host` is the Host field, NULL if absent.
 */
bool mrd_http_origin_same(const char *origin, const char *fetch_site, const char *host);
/* Returns true for "application/json" in upper or lower case, with or without parameters. */
bool mrd_http_type_json(const char *content_type);

#endif
