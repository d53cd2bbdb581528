/* Folders: what is removed with everything in it, and what is not. */
#include "tests/check.h"

#include "base/out.h"

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
    REQUIRE(symlink(kept, link) == 0); /* to a folder */
    kept[strlen(kept)] = '/';
    mrd_remove_tree(tree);
    CHECK(access(tree, F_OK) != 0);
    CHECK(access(kept, F_OK) == 0);
    mrd_remove_tree(tree); /* nothing there: nothing happens */
}

TEST_MAIN()
