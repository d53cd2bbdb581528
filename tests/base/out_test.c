/* Tests the removal of directory trees, and that directories of others are not removed. */
#include "tests/check.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/sys/out.h"

TEST(a_tree_goes_and_what_its_links_point_to_stays)
{
    char tree[256], deep[300], kept[300], link[300];
    mrd_bytes text = { (const uint8_t *) "x", 1 };

    snprintf(tree, sizeof(tree), "%s/tree", test_tmp());
    snprintf(deep, sizeof(deep), "%s/a/b/file", tree);
    snprintf(kept, sizeof(kept), "%s/other/kept", test_tmp());
    snprintf(link, sizeof(link), "%s/a/link", tree);
    CHECK_ERR("deep", mrd_write_file(deep, text, 0600, NULL), MRD_OK);
    CHECK_ERR("kept", mrd_write_file(kept, text, 0600, NULL), MRD_OK);
    *strrchr(kept, '/') = '\0';
    REQUIRE(symlink(kept, link) == 0); /* to a directory */
    kept[strlen(kept)] = '/';
    mrd_remove_tree(tree);
    CHECK(access(tree, F_OK) != 0);
    CHECK(access(kept, F_OK) == 0);
    mrd_remove_tree(tree); /* removing a missing tree does nothing */
}

/* The tree is deeper than PATH_MAX and than the limit of open files. */
TEST(a_tree_of_any_depth_goes)
{
    struct rlimit few = { 40, 40 };
    char top[256];
    int at;

    snprintf(top, sizeof(top), "%s/deep", test_tmp());
    REQUIRE(mkdir(top, 0700) == 0 && (at = open(top, O_RDONLY | O_DIRECTORY)) >= 0);
    for (int i = 0; i < 5000; i++) {
        int below, file = openat(at, "file", O_WRONLY | O_CREAT, 0600);

        REQUIRE(file >= 0 && mkdirat(at, "below", 0700) == 0);
        REQUIRE((below = openat(at, "below", O_RDONLY | O_DIRECTORY)) >= 0);
        close(file);
        close(at);
        at = below;
    }
    close(at);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
    mrd_remove_tree(top);
    CHECK(access(top, F_OK) != 0);
}

/* The owner may open a directory before removing it. Root needs no permissions, so the test runs as
 * another user. */
TEST(folders_that_are_closed_go)
{
    static const mode_t modes[] = { 0, 0500, 0300, 0600 };
    mrd_bytes text = { (const uint8_t *) "x", 1 };
    char own[256], path[400], tree[300];
    pid_t pid;
    int status = -1;

    snprintf(own, sizeof(own), "%s/own", test_tmp());
    snprintf(tree, sizeof(tree), "%s/closed", own);
    REQUIRE(mkdir(own, 0700) == 0 && chmod(test_tmp(), 0711) == 0);
    REQUIRE(geteuid() != 0 || chown(own, 65534, 65534) == 0);
    if ((pid = fork()) == 0) {
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
            _exit(2);
        for (size_t i = 0; i < MRD_COUNT(modes); i++) {
            snprintf(path, sizeof(path), "%s/a%zu/b/file", tree, i);
            if (mrd_write_file(path, text, 0600, NULL) != MRD_OK)
                _exit(3);
            for (int up = 0; up < 2; up++) {
                *strrchr(path, '/') = '\0';
                if (chmod(path, modes[i]) != 0)
                    _exit(4);
            }
        }
        if (chmod(tree, 0) != 0)
            _exit(5);
        mrd_remove_tree(tree);
        _exit(0);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_INT(WEXITSTATUS(status), 0);
    CHECK(access(tree, F_OK) != 0);
}

/* mrd_remove_parts removes the temporary files that were never committed, but no files with similar
 * names. */
TEST(parts_that_were_left_go)
{
    static const char *const left[] = { "profile.json.0123abcd.part", ".x.ffffffff.part" };
    static const char *const kept[] = { "profile.json",         "a.part",          ".12345678.part",
                                        "a.0123abcdpart",       "a.0123abcg.part", "a.123abcd.part",
                                        "below/a.0123abcd.part" };
    mrd_bytes text = { (const uint8_t *) "x", 1 };
    char dir[256], path[400];
    mrd_out *out = NULL;

    snprintf(dir, sizeof(dir), "%s/parts", test_tmp());
    mrd_remove_parts(dir); /* it is not there */
    for (size_t i = 0; i < MRD_COUNT(left) + MRD_COUNT(kept); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir,
                 i < MRD_COUNT(left) ? left[i] : kept[i - MRD_COUNT(left)]);
        CHECK_ERR(path, mrd_write_file(path, text, 0600, NULL), MRD_OK);
    }
    snprintf(path, sizeof(path), "%s/killed", dir);
    CHECK_ERR("killed", mrd_out_file(path, &out, NULL), MRD_OK);
    mrd_remove_parts(dir);
    /* fails, because its temporary file was removed under a foreign name */
    CHECK(mrd_out_commit(out, NULL) != MRD_OK);
    for (size_t i = 0; i < MRD_COUNT(left) + MRD_COUNT(kept); i++) {
        bool stays = i >= MRD_COUNT(left);

        snprintf(path, sizeof(path), "%s/%s", dir, stays ? kept[i - MRD_COUNT(left)] : left[i]);
        CHECK_ROW(path, (access(path, F_OK) == 0) == stays);
    }
}

TEST(folders_above_are_synced_wherever_the_path_begins)
{
    char path[256];
    mrd_why why = { 0 };

    snprintf(path, sizeof(path), "%s/a//b/", test_tmp());
    CHECK_ERR("folders", mrd_make_dirs(path, NULL), MRD_OK);
    CHECK_ERR("no name", mrd_make_dirs("", &why), MRD_INVALID);
    CHECK_TEXT(why.text, "the name of the folder is empty");
    CHECK_ERR("all of it", mrd_sync_dirs_above(path, NULL), MRD_OK);
    CHECK_ERR("a name that is not there", mrd_sync_dirs_above("x", NULL), MRD_OK);
    CHECK_ERR("one level", mrd_sync_dirs_above("./x", NULL), MRD_OK);
    CHECK_ERR("the root", mrd_sync_dirs_above("/", NULL), MRD_OK);
    snprintf(path, sizeof(path), "%s/none/x", test_tmp());
    CHECK_ERR("no folder", mrd_sync_dirs_above(path, &why), MRD_IO);
    CHECK(strstr(why.text, "/none") != NULL);
}

TEST_MAIN()
