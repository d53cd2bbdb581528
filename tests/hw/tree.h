/* tests/hw/tree.h - small file trees for tests. */
#ifndef MRD_TESTS_HW_TREE_H
#define MRD_TESTS_HW_TREE_H

#include "base/sys/out.h"
#include "tests/check.h"

/* Writes text to <root>/<rel>, and creates missing directories. */
static inline void
tree_file(const char *root, const char *rel, const char *text)
{
    char path[4096], dir[4096];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", root, rel);
    snprintf(dir, sizeof(dir), "%s", path);
    *strrchr(dir, '/') = '\0';
    if (mrd_make_dirs(dir, NULL) != MRD_OK || (f = fopen(path, "w")) == NULL)
        abort();
    fputs(text, f);
    fclose(f);
}

#endif
