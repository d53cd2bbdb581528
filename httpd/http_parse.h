/*
 * httpd/http_parse.h - parses text that HTTP clients send: paths, ranges, entity tags, tokens (RFC
 * 9110).
 *
 * All functions are pure, so that tests can fuzz them and run them on tables of inputs. Internal to
 * httpd/.
 */
#ifndef MRD_HTTPD_HTTP_PARSE_H
#define MRD_HTTPD_HTTP_PARSE_H

#include "base/buf.h"

enum { HTTP_PATH_MAX = 2048, HTTP_PARAMS_MAX = 4 };

/* The {name} parts of a route, and the parts of the path that match them. The texts are borrowed
 * from the route and from the path. */
typedef struct {
    mrd_str names[HTTP_PARAMS_MAX], values[HTTP_PARAMS_MAX];
    size_t n;
} http_params;

/* Returns the path of a request's target. In a target "http://host:port/path", the authority is
 * "host:port" and replaces the Host field. Any other target is the path itself, and the authority
 * is empty (RFC 9112, 3.2). */
const char *mrd_http_target(const char *target, mrd_str *ret_authority);
/* Returns true if the text has only characters that are allowed in a host with a port. */
bool mrd_http_host_valid(const char *host);
/* Returns false if a component of the path is empty, is ".", or starts with "..". Also returns
 * false if the path has control characters or backslashes, or is too long. The server refuses such
 * a path before any handler is called. */
bool mrd_http_path_plain(const char *path);
/* Decodes %XX in place and returns the new length. %00 is not decoded, because a C string would end
 * there and could name another object. */
size_t mrd_http_unescape(char *text);
/* Matches a path with a route, such as "/a/{x}/b" or "/a/{rest*}", and stores the parameters. */
bool mrd_http_route_match(const char *pattern, const char *path, http_params *params);
mrd_str mrd_http_params_value(const http_params *params,
                              const char *name); /* "" if the route has no such parameter */

/* Parses a Range field with one range: "bytes=a-b", "bytes=a-" or "bytes=-n". `size` is the size of
 * the body. Returns 1 if the range can be satisfied, and -1 if not. Returns 0 if the field must be
 * ignored, because it has several ranges, another unit, or invalid text. */
int mrd_http_range(const char *text, uint64_t size, uint64_t *ret_from, uint64_t *ret_len);

/* Returns true if `list`, the text of an If-None-Match or If-Match field, is "*" or contains etag.
 * etag includes its quotes. `list` is NULL if there is no such field. With `weak`, W/"x" equals
 * "x". */
bool mrd_http_etag_listed(const char *list, const char *etag, bool weak);

/* Returns the bearer token of an Authorization field, or "" if there is none. */
mrd_str mrd_http_bearer(const char *authorization);

/*
 * Decides whether a Host field is acceptable when no token identifies the caller. This prevents DNS
 * rebinding, in which a web page redirects its own name to this machine. The browser then sends
 * that name as Host. Accepts NULL (HTTP/1.0), numeric addresses, "localhost", names that end with
 * ".localhost", and the comma-separated `names`.
 */
bool mrd_http_host_ours(const char *host, const char *names);
/*
 * Decides whether to accept a request that changes something, because a foreign web page may have
 * made the browser send it. Accepts requests of the same origin, requests that the user typed
 * ("none"), and requests that have neither Origin nor Sec-Fetch-Site, because these are not from a
 * browser. `host` is the Host field, or NULL if absent.
 */
bool mrd_http_origin_same(const char *origin, const char *fetch_site, const char *host);
/* Returns true for "application/json" in upper or lower case, with or without parameters. */
bool mrd_http_type_json(const char *content_type);

#endif
