/* Tests reading the list of a shared library's functions from its file. The libraries are a real
 * one, one without symbol versions, and damaged ones. */
#include "base/sys/exports.h"

#include <sys/stat.h>

#include "tests/check.h"

typedef struct {
    size_t n, three;
    bool found;
} seen;

static void
see(void *self, const char *name, const char *version)
{
    seen *s = self;

    s->n++;
    s->three += strcmp(version, "NRT_3.0.0") == 0;
    s->found =
        s->found || (strcmp(name, "nrta_tensor_read") == 0 && strcmp(version, "NRT_2.0.0") == 0);
}

static char *
library(const char *name, size_t *ret_len)
{
    char path[512];
    char *text = NULL;
    struct stat st;
    FILE *f;

    snprintf(path, sizeof(path), "%s/lib/%s/libnrt.so.1", getenv("MERIDIAN_BUILD"), name);
    if ((f = fopen(path, "re")) == NULL || fstat(fileno(f), &st) != 0)
        return NULL;
    text = malloc((size_t) st.st_size);
    *ret_len = fread(text, 1, (size_t) st.st_size, f);
    fclose(f);
    return text;
}

static mrd_err
look(const char *bytes, size_t len, const char *prefix, seen *ret)
{
    char path[300];
    FILE *f;

    snprintf(path, sizeof(path), "%s/lib.so", test_tmp());
    f = fopen(path, "we");
    fwrite(bytes, 1, len, f);
    fclose(f);
    *ret = (seen){ 0 };
    return mrd_exports_each(path, prefix, see, ret, NULL);
}

TEST(names_and_versions)
{
    size_t len = 0;
    char *lib = library("simnrt", &len);
    mrd_why why = { 0 };
    seen s;

    REQUIRE(lib != NULL);
    CHECK_ERR("all", look(lib, len, "nrt", &s), MRD_OK);
    CHECK(s.n > 100 && s.found);
    CHECK_INT(s.three, 10);
    CHECK_ERR("some", look(lib, len, "nrta_tensor_", &s), MRD_OK);
    CHECK_INT(s.n, 6);
    CHECK_ERR("text", look("#!/bin/sh\n", 10, "nrt", &s), MRD_FORMAT);
    CHECK_ERR("nothing", mrd_exports_each("/nonexistent", "nrt", see, &s, &why), MRD_IO);
    CHECK(strstr(why.text, "/nonexistent") != NULL);
    free(lib);
}

TEST(damaged_files)
{
    size_t len = 0;
    char *lib = library("simnrt", &len), *copy;
    uint64_t seed = 7;
    seen s;

    REQUIRE(lib != NULL);
    copy = malloc(len);
    for (int i = 0; i < 300; i++) {
        size_t keep = i < 100 ? len * (size_t) i / 100 : len;

        memcpy(copy, lib, len);
        for (int k = 0; k < i / 10; k++) { /* Damage in headers and tables has the most effect. */
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            copy[(seed >> 33) % (i % 2 == 0       ? 4096
                                 : keep + 1 > len ? len
                                                  : keep + 1)] ^= (char) (seed >> 20);
            copy[len - 1 - (seed >> 40) % 4096] ^= (char) (seed >> 12);
        }
        (void) look(copy, keep, "nrt", &s); /* any result is accepted, but the call returns */
    }
    free(copy);
    free(lib);
}

TEST_MAIN()
