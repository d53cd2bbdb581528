#include "pki/cert.h"

#include <limits.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#define LAST_YEAR                                                                                  \
    (2261 - 1900) /* last year (since 1900) with times that fit in 64-bit ns since 1970 */

static bool
plain(const ASN1_STRING *text, char between)
{
    const unsigned char *p = ASN1_STRING_get0_data(text);
    int n = ASN1_STRING_length(text);

    for (int i = 0; i < n; i++) {
        if (p[i] < 0x20 || p[i] > 0x7e || p[i] == (unsigned char) between)
            return false;
    }
    return n > 0;
}

static size_t
append(const ASN1_STRING *text, char between, char *to, size_t len, size_t size)
{
    size_t n = text == NULL ? 0 : (size_t) ASN1_STRING_length(text);

    if (text == NULL || !plain(text, between) || len + n + 2 > size)
        return len;
    if (len > 0)
        to[len++] = between;
    memcpy(to + len, ASN1_STRING_get0_data(text), n);
    to[len + n] = '\0';
    return len + n;
}

size_t
mrd_cert_names(X509 *cert, char between, char *to, size_t size)
{
    GENERAL_NAMES *alt = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    X509_NAME *subject = X509_get_subject_name(cert);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    size_t len = 0;

    to[0] = '\0';
    if (at >= 0)
        len = append(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)), between, to, len,
                     size);
    for (int i = 0; alt != NULL && i < sk_GENERAL_NAME_num(alt); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(alt, i);

        if (name->type == GEN_DNS)
            len = append(name->d.dNSName, between, to, len, size);
    }
    GENERAL_NAMES_free(alt);
    return len;
}

bool
mrd_cert_names_der(mrd_bytes der, char between, char *to, size_t size)
{
    const unsigned char *p = der.p;
    X509 *cert = der.len > LONG_MAX ? NULL : d2i_X509(NULL, &p, (long) der.len);

    if (cert != NULL)
        mrd_cert_names(cert, between, to, size);
    ERR_clear_error();
    X509_free(cert);
    return cert != NULL;
}

bool
mrd_cert_named(const char *names, char between, const char *name)
{
    size_t n = strlen(name);

    while (*names != '\0') {
        const char *end = strchr(names, between);
        size_t len = end == NULL ? strlen(names) : (size_t) (end - names);

        if (len == n && memcmp(names, name, n) == 0)
            return true;
        names += len + (end != NULL);
    }
    return false;
}

static bool
wall_of(const ASN1_TIME *when, mrd_wall_ns *ret)
{
    struct tm tm;

    if (ASN1_TIME_to_tm(when, &tm) != 1 || tm.tm_year < 70)
        return false;
    if (tm.tm_year > LAST_YEAR) { /* certificates without an end state the year 9999 */
        *ret = (mrd_wall_ns){ INT64_MAX };
        return true;
    }
    *ret = (mrd_wall_ns){ (int64_t) timegm(&tm) * MRD_SEC };
    return true;
}

bool
mrd_cert_period(X509 *cert, mrd_wall_ns *ret_from, mrd_wall_ns *ret_to)
{
    mrd_wall_ns from = { 0 }, to = { 0 };

    if (!wall_of(X509_get0_notBefore(cert), &from) || !wall_of(X509_get0_notAfter(cert), &to))
        return false;
    *ret_from = from;
    *ret_to = to;
    return true;
}

int
mrd_cert_no_passphrase(char *buf, int size, int rwflag, void *self)
{
    (void) buf;
    (void) size;
    (void) rwflag;
    (void) self;
    return 0;
}
