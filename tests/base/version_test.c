/* Tests the description of a build, which --version, the list of nodes and manifests show. */
#include "base/version.h"

#include "tests/check.h"

TEST(says_release_and_commit)
{
    static const struct {
        const char *commit, *text;
    } rows[] = {
        { NULL, MRD_RELEASE },
        { "", MRD_RELEASE },
        { "9c807b6a2461", MRD_RELEASE " (9c807b6a2461)" },
        { "9c807b6a2461-dirty", MRD_RELEASE " (9c807b6a2461-dirty)" },
        /* other characters are removed, because the text stands in JSON, logs and tables */
        { "a\nb\"c d", MRD_RELEASE " (abcd)" },
    };
    char text[MRD_BUILD_TEXT];

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_version_set_commit(rows[i].commit);
        CHECK_TEXT(mrd_version_text(text), rows[i].text);
    }
}

TEST(cuts_what_is_too_long)
{
    char commit[200], text[MRD_BUILD_TEXT];

    memset(commit, 'a', sizeof(commit) - 1);
    commit[sizeof(commit) - 1] = '\0';
    mrd_version_set_commit(commit);
    CHECK_INT(strlen(mrd_version_commit()), MRD_COMMIT_MAX - 1);
    CHECK(strchr(mrd_version_text(text), ')') != NULL);
}

TEST_MAIN()
