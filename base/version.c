#include "base/version.h"

#include <ctype.h>
#include <stdio.h>

static char commit_text[MRD_COMMIT_MAX];

void
mrd_version_set_commit(const char *commit)
{
    size_t n = 0;

    for (const char *c = commit; c != NULL && *c != '\0' && n + 1 < sizeof(commit_text); c++)
        if (isalnum((unsigned char) *c) || *c == '-')
            commit_text[n++] = *c;
    commit_text[n] = '\0';
}

const char *
mrd_version_commit(void)
{
    return commit_text;
}

char *
mrd_version_text(char text[MRD_BUILD_TEXT])
{
    if (commit_text[0] == '\0')
        snprintf(text, MRD_BUILD_TEXT, "%s", MRD_RELEASE);
    else
        snprintf(text, MRD_BUILD_TEXT, "%s (%s)", MRD_RELEASE, commit_text);
    return text;
}
