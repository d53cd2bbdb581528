#include "httpd/http_parse.h"

#include <arpa/inet.h>
#include <strings.h>

#include "base/num.h"
#include "base/obj.h"

/* ---- Paths ---- */

const char *
mrd_http_target(const char *target, mrd_str *ret_authority)
{
    static const char *const schemes[] = { "http://", "https://" };

    *ret_authority = MRD_STR("");
    for (size_t i = 0; i < MRD_COUNT(schemes); i++) {
        size_t n = strlen(schemes[i]);

        if (strncasecmp(target, schemes[i], n) != 0)
            continue;
        *ret_authority = (mrd_str){ target + n, strcspn(target + n, "/") };
        target += n + ret_authority->len;
        return *target == '\0' ? "/" : target;
    }
    return target;
}

bool
mrd_http_path_plain(const char *path)
{
    if (path[0] != '/' || strnlen(path, HTTP_PATH_MAX + 1) > HTTP_PATH_MAX)
        return false;
    for (const char *p = path; *p != '\0'; p++) {
        if ((unsigned char) *p < 0x20 || *p == 0x7f || *p == '\\')
            return false;
        if (p[0] == '/' &&
            (p[1] == '/' || (p[1] == '.' && (p[2] == '/' || p[2] == '\0' || p[2] == '.'))))
            return false;
    }
    return true;
}

static int
hex_digit(char c)
{
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

size_t
mrd_http_unescape(char *text)
{
    char *to = text;

    for (const char *p = text; *p != '\0'; p++) {
        int high = *p == '%' ? hex_digit(p[1]) : -1, low = high < 0 ? -1 : hex_digit(p[2]);

        if (low >= 0 && (high | low) != 0) {
            *to++ = (char) (high << 4 | low);
            p += 2;
        } else {
            *to++ = *p;
        }
    }
    *to = '\0';
    return (size_t) (to - text);
}

bool
mrd_http_route_match(const char *pattern, const char *path, http_params *params)
{
    const char *cursor = path;

    params->n = 0;
    while (*pattern != '\0') {
        size_t name, n;
        bool rest;

        if (*pattern != '{') {
            if (*pattern++ != *cursor++)
                return false;
            continue;
        }
        name = strcspn(pattern + 1, "*}");
        rest = pattern[1 + name] == '*';
        n = rest ? strlen(cursor) : strcspn(cursor, "/");
        if (n == 0 || params->n == HTTP_PARAMS_MAX)
            return false;
        params->names[params->n] = (mrd_str){ pattern + 1, name };
        params->values[params->n++] = (mrd_str){ cursor, n };
        cursor += n;
        pattern += name + (rest ? 3 : 2);
    }
    return *cursor == '\0';
}

mrd_str
mrd_http_params_value(const http_params *params, const char *name)
{
    for (size_t i = 0; i < params->n; i++) {
        if (mrd_str_is(params->names[i], name))
            return params->values[i];
    }
    return MRD_STR("");
}

/* ---- Ranges ---- */

static bool
digits(mrd_str text, uint64_t *ret_v)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
    }
    return mrd_num_u64(text, ret_v) == MRD_OK;
}

int
mrd_http_range(const char *text, uint64_t size, uint64_t *ret_from, uint64_t *ret_len)
{
    const char *dash;
    mrd_str first, last;
    uint64_t from, to = 0;

    if (text == NULL || strncasecmp(text, "bytes=", 6) != 0 ||
        (dash = strchr(text + 6, '-')) == NULL)
        return 0;
    first = (mrd_str){ text + 6, (size_t) (dash - text - 6) };
    last = (mrd_str){ dash + 1, strcspn(dash + 1, " \t") };
    if (last.p[last.len + strspn(last.p + last.len, " \t")] != '\0')
        return 0;
    if (first.len == 0) {
        if (!digits(last, &to))
            return 0;
        if (to == 0 || size == 0)
            return -1;
        *ret_from = to < size ? size - to : 0;
        *ret_len = size - *ret_from;
        return 1;
    }
    if (!digits(first, &from) || (last.len > 0 && (!digits(last, &to) || to < from)))
        return 0;
    if (from >= size)
        return -1;
    if (last.len == 0 || to >= size)
        to = size - 1;
    *ret_from = from;
    *ret_len = to - from + 1;
    return 1;
}

/* ---- Entity tags ---- */

bool
mrd_http_etag_listed(const char *list, const char *etag, bool weak)
{
    const char *p = list == NULL ? "" : list;

    p += strspn(p, " \t");
    if (*p == '*')
        return p[1 + strspn(p + 1, " \t")] == '\0';
    while (*p != '\0') {
        bool is_weak = strncmp(p, "W/", 2) == 0;
        const char *tag = p + (is_weak ? 2 : 0), *end;

        if (*tag != '"' || (end = strchr(tag + 1, '"')) == NULL)
            return false; /* the text is no list of entity tags */
        if ((weak || !is_weak) && mrd_str_is((mrd_str){ tag, (size_t) (end + 1 - tag) }, etag))
            return true;
        p = end + 1;
        p += strspn(p, " \t,");
    }
    return false;
}

/* ---- Tokens ---- */

mrd_str
mrd_http_bearer(const char *authorization)
{
    mrd_str token = MRD_STR("");

    if (authorization == NULL || strncasecmp(authorization, "Bearer ", 7) != 0)
        return token;
    token.p = authorization + 7 + strspn(authorization + 7, " ");
    token.len = strcspn(token.p, " \t");
    return token.p[token.len] == '\0' ? token : MRD_STR("");
}

/* ---- The origin of a request ---- */

static bool
is_port(const char *rest)
{
    return *rest == '\0' || (*rest == ':' && rest[1 + strspn(rest + 1, "0123456789")] == '\0');
}

/* Returns the host in "host:port" or "[::1]:port", without the brackets. Returns an empty text if
 * the text has another form. */
static mrd_str
host_name(const char *host)
{
    mrd_str name = mrd_str_of(host);

    if (*host == '[') {
        name = (mrd_str){ host + 1, strcspn(host + 1, "]") };
        return name.p[name.len] == ']' && is_port(name.p + name.len + 1) ? name : MRD_STR("");
    }
    name.len = strcspn(host, ":");
    if (!is_port(host + name.len))
        return MRD_STR("");
    /* a final dot names the root of DNS and does not change the name */
    if (name.len > 0 && name.p[name.len - 1] == '.')
        name.len--;
    return name;
}

static bool
is_address(mrd_str name)
{
    char text[INET6_ADDRSTRLEN];
    uint8_t any[16];

    if (name.len == 0 || name.len >= sizeof(text))
        return false;
    memcpy(text, name.p, name.len);
    text[name.len] = '\0';
    return inet_pton(AF_INET, text, any) == 1 || inet_pton(AF_INET6, text, any) == 1;
}

static bool
same_name(mrd_str str, const char *b, size_t n)
{
    return str.len == n && strncasecmp(str.p, b, n) == 0;
}

bool
mrd_http_host_valid(const char *host)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-._~%!$&'()*+,;=:[]";

    return host[strspn(host, allowed)] == '\0';
}

bool
mrd_http_host_ours(const char *host, const char *names)
{
    static const char local[] = "localhost";
    const size_t n = sizeof(local) - 1;
    mrd_str name;

    if (host == NULL)
        return true;
    name = host_name(host);
    if (is_address(name) || same_name(name, local, n) ||
        (name.len > n && name.p[name.len - n - 1] == '.' &&
         strncasecmp(name.p + name.len - n, local, n) == 0))
        return true;
    for (const char *p = names; p != NULL && *p != '\0';) {
        size_t len;

        p += strspn(p, ", ");
        len = strcspn(p, ", ");
        if (len > 0 && same_name(name, p, len))
            return true;
        p += len;
    }
    return false;
}

bool
mrd_http_origin_same(const char *origin, const char *fetch_site, const char *host)
{
    const char *authority = origin == NULL ? NULL : strstr(origin, "://");

    if (fetch_site != NULL)
        return strcasecmp(fetch_site, "same-origin") == 0 || strcasecmp(fetch_site, "none") == 0;
    return origin == NULL ||
           (authority != NULL && host != NULL && strcasecmp(authority + 3, host) == 0);
}

bool
mrd_http_type_json(const char *content_type)
{
    static const char json[] = "application/json";
    size_t n = sizeof(json) - 1;

    if (content_type == NULL || strncasecmp(content_type, json, n) != 0)
        return false;
    n += strspn(content_type + n, " \t");
    return content_type[n] == '\0' || content_type[n] == ';';
}
