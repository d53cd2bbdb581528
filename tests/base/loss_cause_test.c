#include "base/loss_cause.h"

#include "tests/check.h"

TEST(every_name_is_found_again)
{
    for (int cause = 0; cause < MRD_DROP_ALL; cause++) {
        const char *name = mrd_drop_text((mrd_drop_cause) cause);

        CHECK_ROW(name, mrd_drop_of(mrd_str_of(name)) == (mrd_drop_cause) cause);
        CHECK_ROW(name, mrd_drop_meaning(mrd_str_of(name)) != NULL);
    }
}

TEST(effects)
{
    CHECK(mrd_drop_effect(MRD_STR("spool-full")) == MRD_LOSS_HOLE);
    CHECK(mrd_drop_effect(MRD_STR("ring-full")) == MRD_LOSS_THREAD);
    CHECK(mrd_drop_effect(MRD_STR("recorder-window")) == MRD_LOSS_UNWANTED);
    CHECK(mrd_drop_effect(MRD_STR("paused")) == MRD_LOSS_NONE);
}

/* A cause of losses may have an unknown name, from a newer agent, or one that only begins like a
 * known name. */
TEST(unknown_names_make_holes)
{
    static const char *const names[] = { "", "ring-ful", "ring-full2", "other", "unknown" };

    for (size_t i = 0; i < MRD_COUNT(names); i++) {
        mrd_str name = mrd_str_of(names[i]);

        CHECK_ROW(names[i], mrd_drop_of(name) == MRD_DROP_ALL);
        CHECK_ROW(names[i], mrd_drop_effect(name) == MRD_LOSS_HOLE);
        CHECK_ROW(names[i], mrd_drop_meaning(name) == NULL);
    }
    CHECK_TEXT(mrd_drop_text(MRD_DROP_ALL), "unknown");
}

/* The spool stores the counts of an agent by position. A change here needs another spool
 * version. */
TEST(positions_in_the_spool)
{
    CHECK_INT(MRD_DROP_DAMAGED, 15);
    CHECK_INT(MRD_DROP_LATE, 16);
    CHECK_INT(MRD_DROP_CAUSES, 17);
}

TEST_MAIN()
