/* Fuzzes the signing of certificates: a request of an unauthenticated node, and a certificate that
 * is to be renewed. A signed certificate
 * has only the name of this instance, is no authority, and has the request's key. A certificate
 * from another authority is never accepted. */
#include "pki/csr.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "pki/cert_make.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond))                                                                               \
            abort();                                                                               \
    } while (0)

static mrd_signer *
signer_make(void)
{
    char dir[] = "/tmp/mrd-fuzz-csr-XXXXXX", ca[64], key[64];
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    X509 *cert = mrd_cert_make("ca", pair, NULL);
    mrd_signer *s = NULL;
    FILE *f;

    MUST(mkdtemp(dir) != NULL);
    snprintf(ca, sizeof(ca), "%s/ca", dir);
    snprintf(key, sizeof(key), "%s/key", dir);
    MUST(X509_gmtime_adj(X509_getm_notAfter(cert), 864000) != NULL &&
         mrd_cert_extend(cert, cert, NID_basic_constraints, "critical,CA:TRUE") &&
         mrd_cert_extend(cert, cert, NID_subject_key_identifier, "hash") &&
         X509_sign(cert, pair, EVP_sha256()) != 0);
    MUST((f = fopen(ca, "we")) != NULL && PEM_write_X509(f, cert) == 1 && fclose(f) == 0);
    MUST((f = fopen(key, "we")) != NULL &&
         PEM_write_PrivateKey(f, pair, NULL, NULL, 0, NULL, NULL) == 1 && fclose(f) == 0);
    MUST(chmod(key, 0600) == 0 && mrd_signer_open(ca, key, &s, NULL) == MRD_OK);
    MUST(unlink(ca) == 0 && unlink(key) == 0 && rmdir(dir) == 0);
    X509_free(cert);
    EVP_PKEY_free(pair);
    return s;
}

static void
check_signed(const mrd_buf *pem)
{
    BIO *in = BIO_new_mem_buf(pem->p, (int) pem->len);
    X509 *cert = PEM_read_bio_X509(in, NULL, NULL, NULL);
    char name[128] = "";

    MUST(cert != NULL && X509_check_ca(cert) == 0 && X509_get_ext_count(cert) == 5);
    X509_NAME_oneline(X509_get_subject_name(cert), name, sizeof(name));
    MUST(strcmp(name, "/O=meridian/CN=i-a") == 0);
    X509_free(cert);
    BIO_free(in);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static mrd_signer *signer;
    mrd_str text = { (const char *) data, size };
    char hash[MRD_SHA256_HEX] = "", instance[MRD_CSR_INSTANCE] = "none";
    mrd_buf to = { 0 };
    mrd_why why = { 0 };
    mrd_err err;

    if (signer == NULL)
        signer = signer_make();
    err = mrd_csr_key_hash(text, hash, &why);
    MUST(err == MRD_OK ? strlen(hash) == MRD_SHA256_HEX - 1
                       : why.text[0] != '\0' && hash[0] == '\0');
    if (mrd_signer_sign(signer, text, "i-a", 3600 * MRD_SEC, &to, &why) == MRD_OK) {
        MUST(err == MRD_OK);
        check_signed(&to);
        MUST(mrd_signer_holder(signer, (mrd_str){ (const char *) to.p, to.len }, text, NULL,
                               instance, &why) == MRD_OK &&
             strcmp(instance, "i-a") == 0);
    } else {
        MUST(to.len == 0 && why.text[0] != '\0');
    }
    memcpy(instance, "none", 5);
    MUST(mrd_signer_holder(signer, text, text, NULL, instance, &why) != MRD_OK &&
         strcmp(instance, "none") == 0);
    mrd_buf_fini(&to);
    return 0;
}
