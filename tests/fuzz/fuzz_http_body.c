/* Fuzzes the parser of the JSON body of a request that starts a session. */
#include "aggregator/api/http_body.h"
#include "base/obj.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mrd_json *body = NULL;
    mrd_session_request r = { 0 };
    mrd_why why = { 0 };

    if (mrd_json_parse((mrd_str){ (const char *) data, size }, "body", &body, &why) != MRD_OK)
        return 0;
    if (mrd_json_is_object(body)) {
        mrd_err err = mrd_http_session_request(body, &r, &why);

        if (err == MRD_OK)
            MRD_ASSERT(r.params.duration >= 0 && r.params.recorder_ns > 0 &&
                       r.params.counter_period > 0 && strlen(r.params.name) < MRD_TEXT_MAX &&
                       strlen(r.params.require) < 16);
        else
            MRD_ASSERT(why.text[0] != '\0' || err == MRD_NOMEM);
        mrd_session_request_fini(&r);
    }
    mrd_json_free(body);
    return 0;
}
