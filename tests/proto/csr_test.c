/* Tests which certificate requests an authority signs and which it refuses. The test makes hostile
 * requests and certificates of every kind with OpenSSL's own functions. */
#include "pki/csr.h"

#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys/out.h"
#include "pki/cert_make.h"
#include "tests/check.h"

#define DAY (86400 * MRD_SEC)

static const char *
path_of(const char *name)
{
    static char paths[64][300];
    static unsigned at;
    char *to = paths[at++ % MRD_COUNT(paths)];

    snprintf(to, sizeof(paths[0]), "%s/%s", test_tmp(), name);
    return to;
}

static void
put(const char *name, const char *text, size_t len, unsigned mode)
{
    mrd_why why = { 0 };

    CHECK_ERR(name,
              mrd_write_file(path_of(name), (mrd_bytes){ (const uint8_t *) text, len }, mode, &why),
              MRD_OK);
}

/* ---- Text of OpenSSL's objects ---- */

static mrd_str
text_of(BIO *bio, mrd_buf *to)
{
    char *data = NULL;
    long len = BIO_get_mem_data(bio, &data);

    mrd_buf_reset(to);
    mrd_buf_add(to, data, (size_t) len);
    BIO_free(bio);
    return (mrd_str){ (const char *) to->p, to->len };
}

static mrd_str
pem_of_cert(X509 *cert, mrd_buf *to)
{
    BIO *bio = BIO_new(BIO_s_mem());

    CHECK(PEM_write_bio_X509(bio, cert) == 1);
    return text_of(bio, to);
}

static mrd_str
pem_of_request(X509_REQ *r, mrd_buf *to)
{
    BIO *bio = BIO_new(BIO_s_mem());

    CHECK(PEM_write_bio_X509_REQ(bio, r) == 1);
    return text_of(bio, to);
}

static void
put_key(const char *name, EVP_PKEY *key)
{
    mrd_buf text = { 0 };
    BIO *bio = BIO_new(BIO_s_mem());
    mrd_str s;

    CHECK(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1);
    s = text_of(bio, &text);
    put(name, s.p, s.len, 0600);
    mrd_buf_fini(&text);
}

/* ---- An authority ---- */

typedef struct {
    X509 *cert;
    EVP_PKEY *key;
    mrd_signer *signer;
} authority;

static X509 *
certificate(const char *name, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key, int seconds,
            const char *basic, const char *usage)
{
    X509 *cert = mrd_cert_make(name, key, issuer);

    CHECK(X509_gmtime_adj(X509_getm_notAfter(cert), seconds) != NULL);
    if (seconds < 0)
        CHECK(X509_gmtime_adj(X509_getm_notBefore(cert), seconds - 3600) != NULL);
    CHECK(mrd_cert_extend(cert, issuer == NULL ? cert : issuer, NID_basic_constraints, basic));
    if (issuer == NULL)
        CHECK(mrd_cert_extend(cert, cert, NID_subject_key_identifier, "hash"));
    if (usage != NULL)
        CHECK(mrd_cert_extend(cert, issuer == NULL ? cert : issuer, NID_ext_key_usage, usage));
    CHECK(X509_sign(cert, issuer_key, EVP_sha256()) != 0);
    return cert;
}

static authority
authority_make(const char *name, int days)
{
    authority a = { .key = EVP_EC_gen("P-256") };
    char file[64];
    mrd_buf text = { 0 };
    mrd_why why = { 0 };
    mrd_str s;

    a.cert = certificate(name, a.key, NULL, a.key, days * 86400, "critical,CA:TRUE", NULL);
    snprintf(file, sizeof(file), "%s.key", name);
    put_key(file, a.key);
    snprintf(file, sizeof(file), "%s.pem", name);
    s = pem_of_cert(a.cert, &text);
    put(file, s.p, s.len, 0644);
    mrd_buf_fini(&text);
    snprintf(file, sizeof(file), "%s.key", name);
    {
        char pem[64];

        snprintf(pem, sizeof(pem), "%s.pem", name);
        CHECK_ERR(name, mrd_signer_open(path_of(pem), path_of(file), &a.signer, &why), MRD_OK);
    }
    return a;
}

static void
authority_free(authority *a)
{
    mrd_signer_close(a->signer);
    X509_free(a->cert);
    EVP_PKEY_free(a->key);
}

/* ---- Requests ---- */

typedef struct {
    const char *what;
    const char *curve; /* NULL for P-256; or "rsa", "ed25519" */
    const char *cn;    /* NULL: none */
    int cn_len;        /* 0: as the text */
    const char *more;  /* field=value */
    const char *ext;   /* the subjectAltName, or with CA: the basicConstraints */
    bool explicit_curve, foreign_signature, challenge;
    mrd_err want;
    const char *says;
} request_row;

static EVP_PKEY *
key_of(const request_row *row)
{
    const char *curve = row->curve == NULL ? "P-256" : row->curve;
    EVP_PKEY *key;

    if (strcmp(curve, "rsa") == 0)
        return EVP_RSA_gen(2048);
    if (strcmp(curve, "ed25519") == 0)
        return EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    key = EVP_EC_gen(curve);
    if (key != NULL && row->explicit_curve)
        CHECK(EVP_PKEY_set_utf8_string_param(key, "encoding", "explicit") == 1);
    return key;
}

static X509_REQ *
request_make(const request_row *row, EVP_PKEY *key)
{
    X509_REQ *r = X509_REQ_new();
    X509_NAME *subject = X509_REQ_get_subject_name(r);
    EVP_PKEY *other = EVP_EC_gen("P-256");

    CHECK(X509_REQ_set_pubkey(r, key) == 1);
    if (row->cn != NULL)
        CHECK(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                         (const unsigned char *) row->cn,
                                         row->cn_len == 0 ? -1 : row->cn_len, -1, 0) == 1);
    if (row->more != NULL) {
        char field[64];
        const char *eq = strchr(row->more, '=');

        snprintf(field, sizeof(field), "%.*s", (int) (eq - row->more), row->more);
        CHECK(X509_NAME_add_entry_by_txt(subject, field, MBSTRING_UTF8,
                                         (const unsigned char *) eq + 1, -1, -1, 0) == 1);
    }
    if (row->ext != NULL) {
        bool ca = strncmp(row->ext, "CA", 2) == 0;
        STACK_OF(X509_EXTENSION) *list = sk_X509_EXTENSION_new_null();

        sk_X509_EXTENSION_push(
            list, X509V3_EXT_conf_nid(NULL, NULL, ca ? NID_basic_constraints : NID_subject_alt_name,
                                      row->ext));
        CHECK(X509_REQ_add_extensions(r, list) == 1);
        sk_X509_EXTENSION_pop_free(list, X509_EXTENSION_free);
    }
    if (row->challenge)
        CHECK(X509_REQ_add1_attr_by_NID(r, NID_pkcs9_challengePassword, MBSTRING_ASC,
                                        (const unsigned char *) "secret", -1) == 1);
    CHECK(X509_REQ_sign(
              r, row->foreign_signature ? other : key,
              row->curve != NULL && strcmp(row->curve, "ed25519") == 0 ? NULL : EVP_sha256()) != 0);
    EVP_PKEY_free(other);
    return r;
}

static const request_row rows[] = {
    { .what = "as it should be", .cn = "i-a" },
    { .what = "P-384", .curve = "P-384", .cn = "i-a" },
    { .what = "without a subject" },
    { .what = "another name", .cn = "i-b", .want = MRD_INVALID, .says = "another subject" },
    { .what = "a longer name", .cn = "i-a.x", .want = MRD_INVALID, .says = "another subject" },
    { .what = "a NUL and more",
      .cn = "i-a\0.evil",
      .cn_len = 9,
      .want = MRD_INVALID,
      .says = "another subject" },
    { .what = "a NUL at the end",
      .cn = "i-a\0",
      .cn_len = 4,
      .want = MRD_INVALID,
      .says = "another subject" },
    { .what = "two names",
      .cn = "i-a",
      .more = "CN=i-b",
      .want = MRD_INVALID,
      .says = "another subject" },
    { .what = "an organisation",
      .cn = "i-a",
      .more = "O=system:masters",
      .want = MRD_INVALID,
      .says = "another subject" },
    { .what = "an organisation alone", .more = "O=i-a", .want = MRD_INVALID, .says = "subject" },
    { .what = "to be an authority",
      .cn = "i-a",
      .ext = "CA:TRUE",
      .want = MRD_INVALID,
      .says = "extensions" },
    { .what = "to be none", .cn = "i-a", .ext = "CA:FALSE", .want = MRD_INVALID, .says = "ext" },
    { .what = "another DNS name",
      .cn = "i-a",
      .ext = "DNS:i-b",
      .want = MRD_INVALID,
      .says = "extensions" },
    { .what = "its own DNS name",
      .cn = "i-a",
      .ext = "DNS:i-a",
      .want = MRD_INVALID,
      .says = "extensions" },
    { .what = "an attribute",
      .cn = "i-a",
      .challenge = true,
      .want = MRD_INVALID,
      .says = "attributes" },
    { .what = "RSA", .curve = "rsa", .cn = "i-a", .want = MRD_INVALID, .says = "not P-256" },
    { .what = "Ed25519",
      .curve = "ed25519",
      .cn = "i-a",
      .want = MRD_INVALID,
      .says = "not P-256" },
    { .what = "P-224", .curve = "P-224", .cn = "i-a", .want = MRD_INVALID, .says = "not P-256" },
    { .what = "P-521", .curve = "P-521", .cn = "i-a", .want = MRD_INVALID, .says = "not P-256" },
    /* These curves have the size of P-256 or P-384, so a check of the size alone accepts them. */
    { .what = "secp256k1",
      .curve = "secp256k1",
      .cn = "i-a",
      .want = MRD_INVALID,
      .says = "not P-256" },
    { .what = "brainpool 256",
      .curve = "brainpoolP256r1",
      .cn = "i-a",
      .want = MRD_INVALID,
      .says = "not P-256" },
    { .what = "brainpool 384",
      .curve = "brainpoolP384r1",
      .cn = "i-a",
      .want = MRD_INVALID,
      .says = "not P-256" },
    /* Explicit parameters can imitate a named curve. */
    { .what = "a curve by its parameters",
      .cn = "i-a",
      .explicit_curve = true,
      .want = MRD_INVALID,
      .says = "not P-256" },
    { .what = "signed with another key",
      .cn = "i-a",
      .foreign_signature = true,
      .want = MRD_AUTH,
      .says = "not signed with its own key" },
};

/* Checks the certificate: it has exactly these contents for any request. */
static void
check_signed(const char *what, const authority *a, const mrd_buf *pem, EVP_PKEY *key)
{
    BIO *bio = BIO_new_mem_buf(pem->p, (int) pem->len);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    char name[200] = "";

    BIO_free(bio);
    REQUIRE(cert != NULL);
    CHECK_ROW(what, X509_verify(cert, a->key) == 1 && X509_check_ca(cert) == 0);
    CHECK_ROW(what, EVP_PKEY_eq(X509_get0_pubkey(cert), key) == 1);
    X509_NAME_oneline(X509_get_subject_name(cert), name, sizeof(name));
    CHECK_ROW(what, strcmp(name, "/O=meridian/CN=i-a") == 0);
    CHECK_ROW(what, X509_check_purpose(cert, X509_PURPOSE_SSL_CLIENT, 0) == 1);
    CHECK_ROW(what, X509_check_purpose(cert, X509_PURPOSE_SSL_SERVER, 0) == 0);
    CHECK_ROW(what, X509_get_ext_by_NID(cert, NID_subject_alt_name, -1) < 0);
    CHECK_ROW(what, X509_get_ext_count(cert) == 5);
    X509_free(cert);
}

TEST(what_is_asked_for_in_a_request)
{
    authority a = authority_make("ca", 100);
    mrd_buf text = { 0 }, to = { 0 };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const request_row *row = &rows[i];
        EVP_PKEY *key = key_of(row);
        X509_REQ *r = request_make(row, key);
        mrd_str pem = pem_of_request(r, &text);
        mrd_why why = { 0 };
        char instance[MRD_CSR_INSTANCE];

        mrd_buf_reset(&to);
        CHECK_ERR(row->what, mrd_signer_sign(a.signer, pem, "i-a", DAY, &to, &why), row->want);
        CHECK_ROW(row->what, row->says == NULL || strstr(why.text, row->says) != NULL);
        if (row->want == MRD_OK) {
            check_signed(row->what, &a, &to, key);
            CHECK_ERR(row->what,
                      mrd_signer_holder(a.signer, (mrd_str){ (const char *) to.p, to.len }, pem,
                                        NULL, instance, &why),
                      MRD_OK);
            CHECK_ROW(row->what, strcmp(instance, "i-a") == 0);
        } else {
            CHECK_ROW(row->what, to.len == 0);
        }
        X509_REQ_free(r);
        EVP_PKEY_free(key);
    }
    mrd_buf_fini(&text);
    mrd_buf_fini(&to);
    authority_free(&a);
}

/* ---- Bytes ---- */

/* Encodes DER bytes as a PEM block of this kind. */
static mrd_str
block(const char *kind, const unsigned char *der, long len, mrd_buf *to)
{
    BIO *bio = BIO_new(BIO_s_mem());

    CHECK(PEM_write_bio(bio, kind, "", der, len) > 0);
    return text_of(bio, to);
}

TEST(bytes_that_are_no_request)
{
    authority a = authority_make("ca", 100);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509_REQ *r = request_make(&rows[0], key);
    unsigned char *der = NULL;
    int len = i2d_X509_REQ(r, &der);
    mrd_buf good = { 0 }, bad = { 0 }, to = { 0 };
    mrd_str pem = pem_of_request(r, &good);
    mrd_why why = { 0 };
    char hash[MRD_SHA256_HEX];
    unsigned refused = 0;

    REQUIRE(len > 0);
    CHECK_ERR("good", mrd_signer_sign(a.signer, pem, "i-a", DAY, &to, &why), MRD_OK);
    mrd_buf_add(&bad, pem.p, pem.len); /* blank lines after the request are ignored */
    mrd_buf_text(&bad, "\n \r\n\t");
    CHECK_ERR("blanks",
              mrd_signer_sign(a.signer, (mrd_str){ (const char *) bad.p, bad.len }, "i-a", DAY, &to,
                              &why),
              MRD_OK);
    mrd_buf_text(&bad, "x");
    CHECK_ERR("text behind it",
              mrd_csr_key_hash((mrd_str){ (const char *) bad.p, bad.len }, hash, &why), MRD_SYNTAX);
    mrd_buf_reset(&bad);
    mrd_buf_add(&bad, pem.p, pem.len);
    mrd_buf_add(&bad, "\0", 1);
    CHECK_ERR("a NUL behind it",
              mrd_csr_key_hash((mrd_str){ (const char *) bad.p, bad.len }, hash, &why), MRD_SYNTAX);
    mrd_buf_reset(&bad);
    mrd_buf_add(&bad, pem.p, pem.len);
    mrd_buf_add(&bad, pem.p, pem.len);
    CHECK_ERR("two", mrd_csr_key_hash((mrd_str){ (const char *) bad.p, bad.len }, hash, &why),
              MRD_SYNTAX);
    {
        unsigned char *more = malloc((size_t) len + 3);

        memcpy(more, der, (size_t) len);
        memset(more + len, 0x05, 3);
        CHECK_ERR("bytes behind the structure",
                  mrd_csr_key_hash(block("CERTIFICATE REQUEST", more, len + 3, &bad), hash, &why),
                  MRD_SYNTAX);
        free(more);
    }
    CHECK_ERR("of another kind", mrd_csr_key_hash(block("CERTIFICATE", der, len, &bad), hash, &why),
              MRD_SYNTAX);
    CHECK_ERR("empty", mrd_csr_key_hash((mrd_str){ "", 0 }, hash, &why), MRD_SYNTAX);
    mrd_buf_reset(&bad);
    while (bad.len <= MRD_CSR_MAX)
        mrd_buf_add(&bad, pem.p, pem.len);
    CHECK_ERR("huge", mrd_csr_key_hash((mrd_str){ (const char *) bad.p, bad.len }, hash, &why),
              MRD_LIMIT);
    /* Truncates the request at each byte, then changes each byte. The result is never signed for
     * another name or key. */
    for (size_t n = 0; n < pem.len - 1; n++)
        CHECK(mrd_csr_key_hash((mrd_str){ pem.p, n }, hash, NULL) != MRD_OK);
    for (int i = 0; i < len; i++) {
        mrd_err err;

        der[i] ^= 0x41;
        mrd_buf_reset(&to);
        err = mrd_signer_sign(a.signer, block("CERTIFICATE REQUEST", der, len, &bad), "i-a", DAY,
                              &to, NULL);
        refused += err != MRD_OK;
        CHECK(err != MRD_OK && to.len == 0);
        der[i] ^= 0x41;
    }
    CHECK_INT(refused, len);
    OPENSSL_free(der);
    mrd_buf_fini(&good);
    mrd_buf_fini(&bad);
    mrd_buf_fini(&to);
    X509_REQ_free(r);
    EVP_PKEY_free(key);
    authority_free(&a);
}

/* ---- Names, ends ---- */

TEST(names_and_ends)
{
    authority a = authority_make("ca", 3);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509_REQ *r = request_make(&(request_row){ .what = "" }, key);
    mrd_buf text = { 0 }, to = { 0 };
    mrd_str pem = pem_of_request(r, &text);
    static const char *const bad[] = { "",     ".",      "-x",       "a b",  "a/b",
                                       "a\nb", "a,CN=b", "\xc3\xa4", "a\"b", "../a" };
    char longest[MRD_CSR_INSTANCE + 1];
    mrd_dur_ns left, all;
    mrd_why why = { 0 };

    for (size_t i = 0; i < MRD_COUNT(bad); i++)
        CHECK_ERR(bad[i], mrd_signer_sign(a.signer, pem, bad[i], DAY, &to, &why), MRD_INVALID);
    memset(longest, 'a', sizeof(longest));
    longest[MRD_CSR_INSTANCE] = '\0';
    CHECK_ERR("65", mrd_signer_sign(a.signer, pem, longest, DAY, &to, &why), MRD_INVALID);
    longest[MRD_CSR_INSTANCE - 1] = '\0';
    CHECK_ERR("64", mrd_signer_sign(a.signer, pem, longest, DAY, &to, &why), MRD_OK);
    /* The certificate expires no later than the authority. */
    mrd_buf_reset(&to);
    CHECK_ERR("30 days", mrd_signer_sign(a.signer, pem, "i-a", 30 * DAY, &to, &why), MRD_OK);
    put("a.pem", (const char *) to.p, to.len, 0644);
    CHECK_ERR("its end", mrd_csr_validity(path_of("a.pem"), &left, &all, &why), MRD_OK);
    CHECK(left <= 3 * DAY && left > 3 * DAY - 60 * MRD_SEC && all > left);
    mrd_buf_reset(&to);
    CHECK_ERR("a minute", mrd_signer_sign(a.signer, pem, "i-a", 60 * MRD_SEC, &to, &why), MRD_OK);
    put("a.pem", (const char *) to.p, to.len, 0644);
    CHECK_ERR("its end", mrd_csr_validity(path_of("a.pem"), &left, &all, &why), MRD_OK);
    CHECK(left <= 60 * MRD_SEC && left > 0);
    mrd_buf_fini(&text);
    mrd_buf_fini(&to);
    X509_REQ_free(r);
    EVP_PKEY_free(key);
    authority_free(&a);
}

/* ---- Who holds a certificate ---- */

TEST(who_may_have_the_next_one)
{
    authority a = authority_make("ca", 100), old = authority_make("old", 100),
              theirs = authority_make("theirs", 100);
    EVP_PKEY *key = EVP_EC_gen("P-256"), *other = EVP_EC_gen("P-256");
    X509_REQ *r = request_make(&rows[0], key), *r2 = request_make(&rows[0], other);
    mrd_buf mine = { 0 }, others = { 0 }, both = { 0 }, cert = { 0 };
    mrd_str pem = pem_of_request(r, &mine), pem2 = pem_of_request(r2, &others);
    const char *client = "clientAuth", *leaf = "critical,CA:FALSE";
    const struct {
        const char *what;
        X509 *cert;
        mrd_str request;
        const char *authorities;
        mrd_err want;
        const char *says;
    } cases[] = {
        { "its own", certificate("i-a", key, a.cert, a.key, 3600, leaf, client), pem, NULL, MRD_OK,
          "" },
        { "another key", certificate("i-a", other, a.cert, a.key, 3600, leaf, client), pem, NULL,
          MRD_AUTH, "not signed with the certificate's key" },
        { "somebody's else, with its request",
          certificate("i-a", other, a.cert, a.key, 3600, leaf, client), pem2, NULL, MRD_OK, "" },
        { "expired", certificate("i-a", key, a.cert, a.key, -10, leaf, client), pem, NULL, MRD_AUTH,
          "expired" },
        { "for servers", certificate("i-a", key, a.cert, a.key, 3600, leaf, "serverAuth"), pem,
          NULL, MRD_AUTH, "does not count" },
        { "signed by itself", certificate("i-a", key, NULL, key, 3600, leaf, client), pem, NULL,
          MRD_AUTH, "does not count" },
        { "says it is ours", certificate("i-a", key, a.cert, theirs.key, 3600, leaf, client), pem,
          NULL, MRD_AUTH, "does not count" },
        { "the authority before, alone",
          certificate("i-a", key, old.cert, old.key, 3600, leaf, client), pem, NULL, MRD_AUTH,
          "does not count" },
        { "the authority before, which still counts",
          certificate("i-a", key, old.cert, old.key, 3600, leaf, client), pem, "both.pem", MRD_OK,
          "" },
        { "an authority of nobody here",
          certificate("i-a", key, theirs.cert, theirs.key, 3600, leaf, client), pem, "both.pem",
          MRD_AUTH, "does not count" },
        { "a file that is gone", certificate("i-a", key, a.cert, a.key, 3600, leaf, client), pem,
          "gone.pem", MRD_AUTH, "--tls-ca cannot be read" },
        { "no name of ours", certificate("i a", key, a.cert, a.key, 3600, leaf, client), pem, NULL,
          MRD_AUTH, "names no instance" },
    };

    pem_of_cert(a.cert, &both);
    {
        mrd_str s = pem_of_cert(old.cert, &cert);

        mrd_buf_add(&both, s.p, s.len);
    }
    put("both.pem", (const char *) both.p, both.len, 0644);
    for (size_t i = 0; i < MRD_COUNT(cases); i++) {
        char instance[MRD_CSR_INSTANCE] = "untouched";
        mrd_why why = { 0 };

        CHECK_ERR(
            cases[i].what,
            mrd_signer_holder(a.signer, pem_of_cert(cases[i].cert, &cert), cases[i].request,
                              cases[i].authorities == NULL ? NULL : path_of(cases[i].authorities),
                              instance, &why),
            cases[i].want);
        CHECK_ROW(cases[i].what, strstr(why.text, cases[i].says) != NULL);
        CHECK_ROW(cases[i].what,
                  strcmp(instance, cases[i].want == MRD_OK ? "i-a" : "untouched") == 0);
        X509_free(cases[i].cert);
    }
    mrd_buf_fini(&mine);
    mrd_buf_fini(&others);
    mrd_buf_fini(&both);
    mrd_buf_fini(&cert);
    X509_REQ_free(r);
    X509_REQ_free(r2);
    EVP_PKEY_free(key);
    EVP_PKEY_free(other);
    authority_free(&a);
    authority_free(&old);
    authority_free(&theirs);
}

/* Serves `text` to the first reader of a FIFO, and an empty file to each further reader. */
static pid_t
serve_once(const char *path, mrd_str text)
{
    pid_t pid;

    CHECK(mkfifo(path, 0600) == 0);
    if ((pid = fork()) != 0)
        return pid;
    for (bool first = true;; first = false) {
        int fd = open(path, O_WRONLY);

        if (first && write(fd, text.p, text.len) != (ssize_t) text.len)
            _exit(1);
        close(fd);
    }
}

/* The file of --tls-ca can be replaced at any time, so one decision must not read two versions. */
TEST(the_authorities_are_read_once)
{
    authority a = authority_make("ca", 100);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509_REQ *r = request_make(&rows[0], key);
    X509 *x = certificate("i-a", key, a.cert, a.key, 3600, "critical,CA:FALSE", "clientAuth");
    mrd_buf request = { 0 }, cert = { 0 }, ca = { 0 };
    char instance[MRD_CSR_INSTANCE] = "";
    const char *path = path_of("fifo.pem");
    pid_t server = serve_once(path, pem_of_cert(a.cert, &ca));
    mrd_why why = { 0 };

    CHECK(server > 0);
    CHECK_ERR("renewal",
              mrd_signer_holder(a.signer, pem_of_cert(x, &cert), pem_of_request(r, &request), path,
                                instance, &why),
              MRD_OK);
    CHECK(strcmp(instance, "i-a") == 0);
    kill(server, SIGKILL);
    CHECK(waitpid(server, NULL, 0) == server);
    mrd_buf_fini(&request);
    mrd_buf_fini(&cert);
    mrd_buf_fini(&ca);
    X509_REQ_free(r);
    X509_free(x);
    EVP_PKEY_free(key);
    authority_free(&a);
}

/* ---- On the node ---- */

TEST(a_key_is_made_once)
{
    mrd_buf first = { 0 }, again = { 0 };
    char one[MRD_SHA256_HEX] = "", two[MRD_SHA256_HEX] = "";
    struct stat st;
    mrd_why why = { 0 };
    const char *path = path_of("agent.key");

    CHECK_ERR("made", mrd_csr_make(path, "i-a", &first, &why), MRD_OK);
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK_ERR("again", mrd_csr_make(path, "i-a", &again, &why), MRD_OK);
    CHECK_ERR("hash", mrd_csr_key_hash((mrd_str){ (const char *) first.p, first.len }, one, &why),
              MRD_OK);
    CHECK_ERR("hash", mrd_csr_key_hash((mrd_str){ (const char *) again.p, again.len }, two, &why),
              MRD_OK);
    CHECK(strcmp(one, two) == 0 && strlen(one) == MRD_SHA256_HEX - 1);
    CHECK(chmod(path, 0644) == 0);
    CHECK_ERR("others may read it", mrd_csr_make(path, "i-a", &again, &why), MRD_DENIED);
    put("agent.key", "nonsense", 8, 0600);
    CHECK_ERR("no key", mrd_csr_make(path, "i-a", &again, &why), MRD_SYNTAX);
    CHECK_ERR("no name", mrd_csr_make(path_of("b.key"), "../a", &again, &why), MRD_INVALID);
    CHECK(access(path_of("b.key"), F_OK) != 0);
    CHECK(mrd_csr_make(path_of("none/such/dir/\x01"), "i-a", &again, &why) == MRD_OK); /* made */
    mrd_buf_fini(&first);
    mrd_buf_fini(&again);
}

TEST(an_authority_that_is_none)
{
    authority a = authority_make("ca", 10), b = authority_make("b", 10);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *leaf = certificate("i-a", key, a.cert, a.key, 3600, "critical,CA:FALSE", "clientAuth");
    mrd_buf text = { 0 };
    mrd_str s = pem_of_cert(leaf, &text);
    mrd_signer *signer = NULL;
    mrd_why why = { 0 };

    put("leaf.pem", s.p, s.len, 0644);
    put_key("leaf.key", key);
    CHECK_ERR("a leaf", mrd_signer_open(path_of("leaf.pem"), path_of("leaf.key"), &signer, &why),
              MRD_INVALID);
    CHECK_ERR("another's key", mrd_signer_open(path_of("ca.pem"), path_of("b.key"), &signer, &why),
              MRD_INVALID);
    CHECK_ERR("no file", mrd_signer_open(path_of("x.pem"), path_of("b.key"), &signer, &why),
              MRD_NOTFOUND);
    CHECK_ERR("no key", mrd_signer_open(path_of("ca.pem"), path_of("ca.pem"), &signer, &why),
              MRD_DENIED);
    CHECK(signer == NULL);
    mrd_buf_fini(&text);
    X509_free(leaf);
    EVP_PKEY_free(key);
    authority_free(&a);
    authority_free(&b);
}

TEST_MAIN()
