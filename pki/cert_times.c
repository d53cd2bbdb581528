#include "pki/cert_times.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/sys/file.h"
#include "pki/cert.h"

static void
name_of(X509 *cert, char to[128])
{
    char names[MRD_CERT_NAMES];

    mrd_cert_names(cert, '\n', names, sizeof(names));
    names[strcspn(names, "\n")] = '\0';
    for (char *p = names; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\')
            *p = '_';
    }
    snprintf(to, 128, "%.127s", names);
}

/* Inserts a certificate into the list of `have` certificates, which is sorted by the end of
 * validity. If the list is full, the last certificate is dropped. */
static void
place(mrd_cert_times *to, size_t have, const mrd_cert_times *one)
{
    size_t at = have < MRD_CERT_TIMES_MAX ? have : MRD_CERT_TIMES_MAX;

    while (at > 0 && one->end.ns < to[at - 1].end.ns) {
        if (at < MRD_CERT_TIMES_MAX)
            to[at] = to[at - 1];
        at--;
    }
    if (at < MRD_CERT_TIMES_MAX)
        to[at] = *one;
}

static mrd_err
read_all(const char *path, BIO *in, mrd_cert_times *to, mrd_cert_times *first, size_t *ret_n,
         mrd_why *why)
{
    size_t count = 0;
    mrd_err err = MRD_OK;
    X509 *cert;

    while (err == MRD_OK &&
           (cert = PEM_read_bio_X509(in, NULL, mrd_cert_no_passphrase, NULL)) != NULL) {
        mrd_cert_times one = { .number = (unsigned) count + 1,
                               .authority = X509_check_ca(cert) != 0 };

        name_of(cert, one.name);
        if (!mrd_cert_period(cert, &one.begin, &one.end))
            err = mrd_why_set(why, MRD_SYNTAX, 0, "%s: the times of certificate %zu cannot be read",
                              path, count + 1);
        else
            place(to, count++, &one);
        if (count == 1)
            *first = one;
        X509_free(cert);
    }
    /* OpenSSL reports the end of the file as "no start line", which is not an error here */
    if (err == MRD_OK && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        err = mrd_why_set(why, MRD_SYNTAX, 0, "%s: certificate %zu is damaged", path, count + 1);
    else if (err == MRD_OK && count == 0)
        err = mrd_why_set(why, MRD_SYNTAX, 0, "%s: this is no certificate (PEM)", path);
    *ret_n = count;
    return err;
}

static mrd_err
read_file(const char *path, mrd_cert_times *to, mrd_cert_times *first, size_t *ret_n, mrd_why *why)
{
    mrd_buf text = { 0 };
    BIO *in = NULL;
    mrd_err err = mrd_file_read(path, MRD_CERT_TIMES_BYTES, &text, why);

    if (err == MRD_OK && text.len == 0)
        err = mrd_why_set(why, MRD_SYNTAX, 0, "%s is empty", path);
    if (err == MRD_OK && (in = BIO_new_mem_buf(text.p, (int) text.len)) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
    ERR_clear_error();
    if (err == MRD_OK)
        err = read_all(path, in, to, first, ret_n, why);
    ERR_clear_error();
    BIO_free(in);
    mrd_buf_fini(&text);
    return err;
}

mrd_err
mrd_cert_times_read(const char *path, mrd_cert_times to[MRD_CERT_TIMES_MAX], size_t *ret_n,
                    mrd_why *why)
{
    mrd_cert_times all[MRD_CERT_TIMES_MAX], first;
    size_t n;
    mrd_err err = read_file(path, all, &first, &n, why);

    if (err != MRD_OK)
        return err;
    memcpy(to, all, (n < MRD_CERT_TIMES_MAX ? n : MRD_CERT_TIMES_MAX) * sizeof(all[0]));
    *ret_n = n;
    return MRD_OK;
}

mrd_err
mrd_cert_times_first(const char *path, mrd_cert_times *ret_times, mrd_why *why)
{
    mrd_cert_times all[MRD_CERT_TIMES_MAX], first = { 0 };
    size_t n;
    mrd_err err = read_file(path, all, &first, &n, why);

    if (err == MRD_OK)
        *ret_times = first;
    return err;
}

/* ---- Metrics ---- */

typedef struct {
    bool given, readable;
    mrd_cert_times v[MRD_CERT_TIMES_MAX];
    size_t n;
} seen;

static void
family(mrd_metrics_text *text, const mrd_cert_file *files, const seen *s, size_t n, bool ends)
{
    char label[256];

    mrd_metrics_text_family(text, MRD_METRICS_GAUGE,
                            ends ? "meridian_certificate_expiry_timestamp_seconds"
                                 : "meridian_certificate_begin_timestamp_seconds",
                            ends ? "When a certificate of this program's files ends."
                                 : "When a certificate of this program's files begins.");
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < s[i].n; k++) {
            const mrd_cert_times *times = &s[i].v[k];

            snprintf(label, sizeof(label), "option=\"%s\",number=\"%u\",kind=\"%s\",name=\"%s\"",
                     files[i].option, times->number, times->authority ? "authority" : "certificate",
                     times->name);
            mrd_metrics_text_i64(text, label, (ends ? times->end.ns : times->begin.ns) / MRD_SEC);
        }
    }
}

void
mrd_cert_times_metrics(mrd_metrics_text *text, const mrd_cert_file *files, size_t count)
{
    seen *s = calloc(count, sizeof(*s));
    char label[64];

    if (s == NULL) {
        text->to->err = MRD_NOMEM;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        s[i].given = files[i].path != NULL;
        s[i].readable = s[i].given && mrd_cert_times_read(files[i].path, s[i].v, &s[i].n,
                                                          &(mrd_why){ 0 }) == MRD_OK;
        if (s[i].n > MRD_CERT_TIMES_MAX)
            s[i].n = MRD_CERT_TIMES_MAX;
    }
    family(text, files, s, count, true);
    family(text, files, s, count, false);
    mrd_metrics_text_family(text, MRD_METRICS_GAUGE, "meridian_certificate_file_readable",
                            "1 while a file of certificates that was given can be read.");
    for (size_t i = 0; i < count; i++) {
        snprintf(label, sizeof(label), "option=\"%s\"", files[i].option);
        if (s[i].given)
            mrd_metrics_text_u64(text, label, s[i].readable);
    }
    free(s);
}
