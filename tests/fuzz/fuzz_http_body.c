/* The JSON body that starts a session. */
#include "aggregator/http.h"
#include "base/obj.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mrd_json *body = NULL;
    session_wish w = { 0 };
    char require[64];
    mrd_why why = { 0 };

    if (mrd_json_parse((mrd_str){ (const char *) data, size }, "body", &body, &why) != MRD_OK)
        return 0;
    if (mrd_json_is_object(body)) {
        mrd_err err = http_session_wish(body, require, &w, &why);

        if (err == MRD_OK)
            MRD_ASSERT(w.duration_ns >= 0 && w.recorder_ns >= 0 && strlen(w.name) < HUB_TEXT_MAX &&
                       strlen(w.require) < sizeof(require));
        else
            MRD_ASSERT(why.text[0] != '\0' || err == MRD_NOMEM);
        select_fini(&w.select);
    }
    mrd_json_free(body);
    return 0;
}
