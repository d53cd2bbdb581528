/* Tests the list of loaded models (capture/nrt) if two models have the same id. */
#include <string.h>

#include "capture/meridian.h"
#include "capture/nrt/models.h"
#include "tests/check.h"

/* A program may report a model with the id of one that the runtime loaded. A child of fork forgets
 * the runtime's only, whichever is newer. */
TEST(a_child_of_fork_forgets_models_of_the_runtime)
{
    const mrd_model_call call = { .thread_id = 1 };

    for (int newer = 0; newer < 2; newer++) {
        mrd_models *models = NULL;
        mrd_model_list list;

        for (int i = 0; i < 2; i++) {
            if (i == newer)
                CHECK_INT(mrd_model_loaded_by(5, "runtime", 7, 0, 2, &call), MERIDIAN_OK);
            else
                CHECK_INT(mrd_model_loaded(5, NULL, "program", 7, 0, 1), MERIDIAN_OK);
        }
        mrd_models_forked();
        CHECK_INT(mrd_models_create(MRD_MODELS_ALL, 0, &models), MERIDIAN_OK);
        CHECK_INT(mrd_models_start(models), MERIDIAN_OK);
        CHECK_INT(mrd_models_stop(models), MERIDIAN_OK);
        CHECK_INT(mrd_models_get(models, &list), MERIDIAN_OK);
        REQUIRE(list.count == 1);
        CHECK_INT(list.records[0].vnc_count, 1); /* the program's */
        CHECK_INT(mrd_models_free(models), MERIDIAN_OK);
        CHECK_INT(mrd_model_unloaded(5), MERIDIAN_OK);
        CHECK_INT(mrd_model_unloaded(5), MERIDIAN_NOTFOUND);
    }
}

TEST_MAIN()
