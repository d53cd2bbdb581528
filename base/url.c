#include "base/url.h"

#include <arpa/inet.h>

#include "base/num.h"

static mrd_str
part(const char *from, const char *to)
{
    return (mrd_str){ from, (size_t) (to - from) };
}

/* Parses ":port" or an empty text, for which the port is -1. */
static mrd_err
port_parse(mrd_str text, int32_t *ret_port)
{
    uint64_t port = 0;

    if (text.len == 0) {
        *ret_port = -1;
        return MRD_OK;
    }
    if (*text.p != ':' || text.len > 6 || strspn(text.p + 1, "0123456789") < text.len - 1 ||
        mrd_num_u64((mrd_str){ text.p + 1, text.len - 1 }, &port) != MRD_OK || port > UINT16_MAX)
        return MRD_SYNTAX;
    *ret_port = (int32_t) port;
    return MRD_OK;
}

/* Parses "host", "host:port" or "[v6]:port". */
static mrd_err
host_parse(mrd_str text, mrd_url *url)
{
    const char *end = text.p + text.len,
               *stop = text.len == 0 ? NULL : memchr(text.p, ':', text.len);

    if (text.len > 0 && *text.p == '[') {
        if ((stop = memchr(text.p, ']', text.len)) == NULL)
            return MRD_SYNTAX;
        url->host = part(text.p + 1, stop);
        stop++;
    } else {
        stop = stop == NULL ? end : stop;
        url->host = part(text.p, stop);
        if (stop < end && memchr(stop + 1, ':', (size_t) (end - stop) - 1) != NULL)
            return MRD_SYNTAX;
    }
    for (size_t i = 0; i < url->host.len; i++) {
        unsigned char c = (unsigned char) url->host.p[i];

        if (c <= ' ' || c == 0x7f || c == '[' || c == ']')
            return MRD_SYNTAX;
    }
    return port_parse(part(stop, end), &url->port);
}

mrd_err
mrd_url_parse(const char *text, mrd_url *ret_url)
{
    const char *cursor = strstr(text, "://"), *end, *at;
    mrd_url url = { 0 };
    mrd_err err;

    if (cursor != NULL) {
        url.scheme = part(text, cursor);
        if (url.scheme.len == 0 || strcspn(text, "/?#@[ ") < url.scheme.len)
            return MRD_SYNTAX;
        cursor += 3;
    } else {
        cursor = text;
    }
    end = cursor + strcspn(cursor, "/?#");
    url.rest = mrd_str_of(end);
    at = memrchr(cursor, '@', (size_t) (end - cursor));
    url.has_user = at != NULL;
    if ((err = host_parse(part(at == NULL ? cursor : at + 1, end), &url)) == MRD_OK)
        *ret_url = url;
    return err;
}

bool
mrd_url_is(const mrd_url *url, const char *scheme)
{
    mrd_str str = url->scheme;

    if (mrd_str_starts(str, "tls+"))
        str = (mrd_str){ str.p + 4, str.len - 4 };
    return mrd_str_is(str, scheme);
}

bool
mrd_url_is_loopback(const mrd_url *url)
{
    char host[64];
    struct in_addr v4;
    struct in6_addr v6;

    if (mrd_str_is(url->host, "localhost"))
        return true;
    if (!mrd_url_host(url, host, sizeof(host)))
        return false;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool
mrd_url_host(const mrd_url *url, char *host, size_t size)
{
    if (url->host.len >= size)
        return false;
    if (url->host.len > 0)
        memcpy(host, url->host.p, url->host.len);
    host[url->host.len] = '\0';
    return true;
}

bool
mrd_url_listen(const char *text, char *host, size_t size, uint16_t *ret_port)
{
    mrd_url url;

    if (mrd_url_parse(text, &url) != MRD_OK || url.scheme.len > 0 || url.rest.len > 0 ||
        url.has_user || url.port < 0 || url.host.len == 0 || !mrd_url_host(&url, host, size))
        return false;
    *ret_port = (uint16_t) url.port;
    return true;
}
