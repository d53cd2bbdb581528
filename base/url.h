/*
 * base/url.h - the parts of an address: "tls+tcp://host:7770", "http://[::1]:7780/api",
 * "inproc://name", and "host:port" without a scheme. RFC 3986 as far as our addresses go: no
 * decoding of %XX.
 *
 * Parts borrow from the text. Threads: pure.
 */
#ifndef MRD_BASE_URL_H
#define MRD_BASE_URL_H

#include "base/buf.h"

typedef struct {
    mrd_str scheme; /* "tls+tcp"; empty: there was none */
    mrd_str host;   /* without the brackets of an IPv6 address; "*", empty: as it was written */
    mrd_str rest;   /* from the first '/', '?' or '#' behind the host; may be empty */
    int32_t port;   /* 0 to 65535; -1: none was given */
    bool has_user;  /* "name:password@" stood before the host */
} mrd_url;

/*
 * Takes an address apart. Errors, *ret_url untouched: SYNTAX: no scheme before "://", a bracket
 * without its end, a host with blanks or control characters, a ':' that no port follows, an IPv6 address without brackets.
 */
mrd_err mrd_url_parse(const char *text, mrd_url *ret_url);
/* True when the scheme is this one, with or without TLS: "tcp" is also that of "tls+tcp". */
bool mrd_url_is(const mrd_url *url, const char *scheme);
/* True when only this machine can be reached there: 127.0.0.0/8, ::1, "localhost". */
bool mrd_url_is_loopback(const mrd_url *url);
/* The host as text; false when it does not fit. */
bool mrd_url_host(const mrd_url *url, char *host, size_t size);
/* Takes an address to listen at apart: "127.0.0.1:7780", "[::1]:7780", nothing else beside it. false:
 * it is none, or its host does not fit. */
bool mrd_url_listen(const char *text, char *host, size_t size, uint16_t *ret_port);

#endif
