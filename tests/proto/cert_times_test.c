/* Tests reading the validity times of certificate files: files with several certificates, renewed
 * files, names that are invalid as a label of a metric, and files without a certificate. */
#include "pki/cert_times.h"

#include <unistd.h>

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/sys/out.h"
#include "pki/cert_make.h"
#include "tests/check.h"

#define DAY 86400

static const char *
path_of(const char *name)
{
    static char paths[8][300];
    static unsigned at;
    char *to = paths[at++ % MRD_COUNT(paths)];

    snprintf(to, sizeof(paths[0]), "%s/%s", test_tmp(), name);
    return to;
}

static void
put(const char *name, const mrd_buf *text)
{
    mrd_why why = { 0 };

    CHECK_ERR(name, mrd_write_file(path_of(name), (mrd_bytes){ text->p, text->len }, 0644, &why),
              MRD_OK);
}

/* Appends a certificate that expires in `seconds`. */
static void
add(mrd_buf *to, const char *name, bool authority, int seconds)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = mrd_cert_make(name, key, NULL);
    BIO *bio = BIO_new(BIO_s_mem());
    char *data = NULL;
    long len;

    CHECK(X509_gmtime_adj(X509_getm_notAfter(cert), seconds) != NULL);
    CHECK(mrd_cert_extend(cert, cert, NID_basic_constraints,
                          authority ? "critical,CA:TRUE" : "critical,CA:FALSE"));
    CHECK(X509_sign(cert, key, EVP_sha256()) != 0 && PEM_write_bio_X509(bio, cert) == 1);
    len = BIO_get_mem_data(bio, &data);
    mrd_buf_add(to, data, (size_t) len);
    BIO_free(bio);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static int64_t
days_left(const mrd_cert_times *c)
{
    return (mrd_wall_diff(c->end, mrd_wall_now()) / MRD_SEC + DAY / 2) / DAY;
}

TEST(those_that_end_first_come_first)
{
    mrd_cert_times v[MRD_CERT_TIMES_MAX], first;
    mrd_buf text = { 0 };
    mrd_why why = { 0 };
    size_t n = 0;

    add(&text, "i-1", false, 90 * DAY);
    mrd_buf_text(&text, "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n");
    add(&text, "new", true, 400 * DAY);
    add(&text, "old \"one\"\\", true, 5 * DAY);
    put("all.pem", &text);
    CHECK_ERR("three", mrd_cert_times_read(path_of("all.pem"), v, &n, &why), MRD_OK);
    CHECK_INT(n, 3);
    CHECK_TEXT(v[0].name, "old _one__");
    CHECK(v[0].authority && v[0].number == 3 && days_left(&v[0]) == 5);
    CHECK_TEXT(v[1].name, "i-1");
    CHECK(!v[1].authority && v[1].number == 1 && days_left(&v[1]) == 90);
    CHECK(mrd_wall_diff(mrd_wall_now(), v[1].begin) > 3500 * MRD_SEC); /* an hour ago */
    CHECK(v[2].authority && v[2].number == 2 && days_left(&v[2]) == 400);
    CHECK_ERR("first", mrd_cert_times_first(path_of("all.pem"), &first, &why), MRD_OK);
    CHECK_TEXT(first.name, "i-1");
    mrd_buf_fini(&text);
}

/* The files have more certificates than are reported, in any order. The certificates that expire
 * first must be reported, in order. */
TEST(of_many_the_first_to_end_are_told)
{
    mrd_cert_times v[MRD_CERT_TIMES_MAX];
    mrd_buf text = { 0 };
    mrd_why why = { 0 };
    size_t n = 0;

    for (int i = 0; i < MRD_CERT_TIMES_MAX + 7; i++) /* 7 and 23 have no common factor */
        add(&text, "ca", true, (10 + i * 7 % (MRD_CERT_TIMES_MAX + 7)) * DAY);
    put("many.pem", &text);
    CHECK_ERR("many", mrd_cert_times_read(path_of("many.pem"), v, &n, &why), MRD_OK);
    CHECK_INT(n, MRD_CERT_TIMES_MAX + 7);
    for (int i = 0; i < MRD_CERT_TIMES_MAX; i++)
        CHECK_INT(days_left(&v[i]), 10 + i);
    mrd_buf_fini(&text);
}

TEST(files_that_are_none_are_named)
{
    static const char *const bad[] = { "", "no certificate\n",
                                       "-----BEGIN CERTIFICATE-----\nAAAA\n" };
    mrd_cert_times v[MRD_CERT_TIMES_MAX], first = { .number = 77 };
    mrd_buf text = { 0 };
    mrd_why why = { 0 };
    size_t n = 88, whole;

    for (size_t i = 0; i < MRD_COUNT(bad); i++) {
        mrd_buf_reset(&text);
        mrd_buf_text(&text, bad[i]);
        put("bad.pem", &text);
        CHECK_ERR(bad[i], mrd_cert_times_read(path_of("bad.pem"), v, &n, &why), MRD_SYNTAX);
        CHECK(strstr(why.text, "bad.pem") != NULL);
    }
    /* The second certificate is truncated. The file is refused, instead of being read as one
     * certificate. */
    mrd_buf_reset(&text);
    add(&text, "a", true, DAY);
    whole = text.len;
    add(&text, "b", true, DAY);
    text.len = whole + (text.len - whole) / 2;
    put("bad.pem", &text);
    CHECK_ERR("cut", mrd_cert_times_read(path_of("bad.pem"), v, &n, &why), MRD_SYNTAX);
    CHECK(strstr(why.text, "bad.pem: certificate 2 is damaged") != NULL);
    CHECK_ERR("cut", mrd_cert_times_first(path_of("bad.pem"), &first, &why), MRD_SYNTAX);
    CHECK_ERR("absent", mrd_cert_times_read(path_of("absent"), v, &n, &why), MRD_NOTFOUND);
    CHECK(strstr(why.text, "absent") != NULL);
    CHECK(n == 88 && first.number == 77);
    mrd_buf_fini(&text);
}

static void
metrics(mrd_buf *to, const mrd_cert_file *files, size_t n)
{
    mrd_metrics_text x;

    mrd_buf_reset(to);
    mrd_metrics_text_begin(&x, to, false);
    mrd_cert_times_metrics(&x, files, n);
    mrd_metrics_text_end(&x);
    mrd_buf_cstr(to);
}

static void
check_said(const mrd_buf *to, const char *family, const char *labels, int64_t value)
{
    char line[512];

    snprintf(line, sizeof(line), "\n%s{%s} %lld\n", family, labels, (long long) value);
    CHECK_ROW(line, strstr((const char *) to->p, line) != NULL);
}

TEST(metrics_follow_a_renewal_and_tell_what_cannot_be_read)
{
    const mrd_cert_file files[] = { { "tls-cert", path_of("own.pem") },
                                    { "tls-ca", path_of("ca.pem") },
                                    { "http-cert", NULL },
                                    { "agent-ca", path_of("absent.pem") } };
    static const char own[] = "option=\"tls-cert\",number=\"1\",kind=\"certificate\",name=\"i-1\"";
    static const char ca[] = "option=\"tls-ca\",number=\"1\",kind=\"authority\",name=\"ca\"";
    static const char end[] = "meridian_certificate_expiry_timestamp_seconds";
    static const char begin[] = "meridian_certificate_begin_timestamp_seconds";
    static const char readable[] = "meridian_certificate_file_readable";
    mrd_cert_times first;
    mrd_buf text = { 0 }, to = { 0 };
    mrd_why why = { 0 };

    add(&text, "ca", true, 400 * DAY);
    put("ca.pem", &text);
    for (int days = 3; days < 100; days += 50) { /* before and after a renewal */
        mrd_buf_reset(&text);
        add(&text, "i-1", false, days * DAY);
        put("own.pem", &text);
        metrics(&to, files, MRD_COUNT(files));
        CHECK_ERR("own", mrd_cert_times_first(path_of("own.pem"), &first, &why), MRD_OK);
        CHECK_INT(days_left(&first), days);
        check_said(&to, end, own, first.end.ns / MRD_SEC);
        check_said(&to, begin, own, first.begin.ns / MRD_SEC);
        CHECK_ERR("ca", mrd_cert_times_first(path_of("ca.pem"), &first, &why), MRD_OK);
        check_said(&to, end, ca, first.end.ns / MRD_SEC);
        check_said(&to, readable, "option=\"tls-cert\"", 1);
        check_said(&to, readable, "option=\"agent-ca\"", 0);
        CHECK(strstr((const char *) to.p, "http-cert") == NULL);
        CHECK(strstr((const char *) to.p, "agent-ca\",number") == NULL);
    }
    CHECK_INT(unlink(path_of("own.pem")), 0);
    metrics(&to, files, MRD_COUNT(files));
    check_said(&to, readable, "option=\"tls-cert\"", 0);
    CHECK(strstr((const char *) to.p, own) == NULL);
    mrd_buf_fini(&text);
    mrd_buf_fini(&to);
}

TEST_MAIN()
