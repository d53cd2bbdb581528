/* Fuzzes the parser of an API server's answer to a TokenReview. A token is accepted only if the
 * answer says so, for our audience and with a user name. The node of a pod is taken only from the
 * pod with that name, UID and service account. */
#include "aggregator/access/token_review.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mrd_str text = { (const char *) data, size };
    mrd_reviewed v = { 0 };
    mrd_why why = { 0 };
    mrd_reviewed pod = { .user = "system:serviceaccount:ns:acc",
                         .pod = "pod-0",
                         .pod_uid = "uid-0" };
    char node[16] = "\x01";
    mrd_err err = mrd_token_review_pod(text, &pod, node, sizeof(node), &why);

    if ((err == MRD_OK) == (node[0] == '\x01') || node[0] == '\0' ||
        (err != MRD_OK && why.text[0] == '\0'))
        abort();
    why = (mrd_why){ 0 };
    err = mrd_token_review_read(text, "meridian", &v, &why);

    if (err != MRD_OK) {
        if (why.err != err || why.text[0] == '\0' || v.doc != NULL || v.names != NULL)
            abort();
        return 0;
    }
    if (v.pod == NULL || v.pod_uid == NULL || v.node == NULL || v.user == NULL ||
        v.user[0] == '\0' || mrd_json_size(v.names) == 0 || memmem(data, size, "true", 4) == NULL ||
        memmem(data, size, "TokenReview", 11) == NULL)
        abort();
    mrd_reviewed_fini(&v);
    return 0;
}
