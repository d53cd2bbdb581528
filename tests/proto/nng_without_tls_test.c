/* A daemon that starts with an NNG library that does not accept Meridian's TLS engine says so in its error message. The
 * function below replaces the library's function and fails as that of NNG 1.10 does. */
#include "proto/link.h"

#include <dlfcn.h>
#include <nng/nng.h>
#include <nng/supplemental/tls/engine.h>
#include <stdio.h>
#include <string.h>

#include "pki/pki.h"
#include "tests/check.h"

__attribute__((visibility("default"))) int
nng_tls_engine_register(const nng_tls_engine *engine)
{
    typedef int registration(const nng_tls_engine *engine);
    registration *real;

    if (strcmp(engine->name, "openssl") == 0)
        return NNG_ENOTSUP;
    /* NNG registers its own engine through this function, too. */
    *(void **) &real = dlsym(RTLD_NEXT, "nng_tls_engine_register");
    return real == NULL ? NNG_ENOTSUP : real(engine);
}

static const char *
made(const char *dir, const char *name, char *to, size_t size)
{
    snprintf(to, size, "%s/%s", dir, name);
    return to;
}

TEST(a_library_without_tls_is_named_at_the_start)
{
    char dir[512], ca[600], cert[600], key[600];
    mrd_strlist hosts = { 0 };
    mrd_pki_request request = { .dir = dir,
                                .name = "aggregator",
                                .file = "server",
                                .hosts = &hosts,
                                .days = 30,
                                .server = true };
    mrd_why why = { 0 };
    mrd_server *server = NULL;
    mrd_link *link = NULL;

    snprintf(dir, sizeof(dir), "%s/pki", test_tmp());
    CHECK_ERR("host", mrd_strlist_add(&hosts, mrd_str_of("localhost")), MRD_OK);
    CHECK_ERR("authority", mrd_pki_authority(dir, 30, &why), MRD_OK);
    CHECK_ERR("certificate", mrd_pki_issue(&request, false, &why), MRD_OK);
    mrd_strlist_fini(&hosts);

    mrd_link_tls files = { .ca_file = made(dir, "ca.pem", ca, sizeof(ca)),
                           .cert_file = made(dir, "server.pem", cert, sizeof(cert)),
                           .key_file = made(dir, "server.key", key, sizeof(key)) };
    mrd_server_options so = { .data_url = "tls+tcp://127.0.0.1:0", .tls = files };
    mrd_link_options lo = { .data_url = "tls+tcp://127.0.0.1:1", .tls = files };

    CHECK_ERR("server", mrd_server_open(&so, &server, &why), MRD_UNSUPPORTED);
    CHECK(strstr(why.text, "does not accept Meridian's TLS: install NNG 1.5.2 to 1.9") != NULL);
    CHECK(strstr(why.text, nng_version()) != NULL);
    why = (mrd_why){ 0 };
    CHECK_ERR("link", mrd_link_open(&lo, &link, &why), MRD_UNSUPPORTED);
    CHECK(strstr(why.text, "libnng1 of Debian 12") != NULL);
}

TEST_MAIN()
