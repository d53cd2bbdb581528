/* Fuzzes the webhook with requests of the API server about a pod. A user can write the pod's
 * description. */
#include <string.h>

#include "base/obj.h"
#include "webhook/review.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const mrd_inject_options options = { .image = "meridian:1",
                                                .library = "/usr/lib/libmeridian.so",
                                                .rings = "1Gi" };
    mrd_json *review = NULL, *answer = NULL;
    mrd_review_done done = { .space = "" };
    mrd_why why = { 0 };

    if (mrd_json_parse((mrd_str){ (const char *) data, size }, "body", &review, &why) != MRD_OK)
        return 0;
    if (mrd_json_is_object(review)) {
        if (mrd_review_answer(&options, review, &answer, &done, &why) == MRD_OK) {
            const mrd_json *response = mrd_json_get(answer, "response");

            MRD_ASSERT(mrd_json_bool(response, "allowed", false));
            MRD_ASSERT((mrd_json_str(response, "patch", NULL) != NULL) == (done.containers > 0));
            MRD_ASSERT(done.containers <= MRD_INJECT_CONTAINERS);
            for (const char *p = done.name; *p != '\0'; p++)
                MRD_ASSERT(*p > ' ' && *p < 127);
        } else {
            MRD_ASSERT(why.text[0] != '\0');
        }
    }
    mrd_json_free(answer);
    mrd_json_free(review);
    return 0;
}
