#include "webhook/review.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#define API "admission.k8s.io/v1"

/* Returns the patch as a JSON string with base64, as the API of Kubernetes requires. */
static mrd_json *
encoded(const mrd_json *patch)
{
    mrd_buf text = { 0 };
    mrd_json *json = NULL;
    unsigned char *to;

    mrd_json_write(patch, false, &text);
    if (text.err == MRD_OK && (to = malloc((text.len + 2) / 3 * 4 + 1)) != NULL) {
        EVP_EncodeBlock(to, (const unsigned char *) text.p, (int) text.len);
        json = mrd_json_new_str((const char *) to);
        free(to);
    }
    mrd_buf_fini(&text);
    return json;
}

/* Copies a name of a pod, which is untrusted, for one line of a log. Blanks, control characters and
 * characters outside ASCII become '?'. */
static void
printable(const char *text, char *to, size_t size)
{
    size_t n = 0;

    for (; text[n] != '\0' && n < size - 1; n++)
        to[n] = text[n] > ' ' && text[n] < 127 ? text[n] : '?';
    to[n] = '\0';
}

static bool
uid_ok(const char *uid)
{
    size_t n = strlen(uid);

    for (size_t i = 0; i < n; i++)
        if (uid[i] <= ' ' || uid[i] >= 127)
            return false;
    return n > 0 && n <= MRD_REVIEW_UID;
}

/* Returns the pod if the request creates one. Returns NULL for every other request. */
static const mrd_json *
pod_of(const mrd_json *request)
{
    const mrd_json *kind = mrd_json_get(request, "kind"), *pod = mrd_json_get(request, "object"),
                   *sub = mrd_json_get(request, "subResource");

    if (!mrd_json_is_object(kind) || !mrd_json_is_object(pod) ||
        strcmp(mrd_json_str(kind, "kind", ""), "Pod") != 0 ||
        strcmp(mrd_json_str(kind, "version", ""), "v1") != 0 ||
        mrd_json_str(kind, "group", "")[0] != '\0' ||
        strcmp(mrd_json_str(request, "operation", ""), "CREATE") != 0 ||
        (sub != NULL && mrd_json_str(request, "subResource", "")[0] != '\0'))
        return NULL;
    return pod;
}

static void
describe(const mrd_json *request, const mrd_json *pod, mrd_review_done *done)
{
    const mrd_json *meta = mrd_json_get(pod, "metadata");
    const char *name = "";

    if (mrd_json_is_object(meta))
        name = mrd_json_str(meta, "name", mrd_json_str(meta, "generateName", ""));
    printable(mrd_json_str(request, "namespace", ""), done->space, sizeof(done->space));
    printable(name, done->name, sizeof(done->name));
}

static mrd_err
answer(const char *uid, const mrd_injection *in, mrd_json **ret_answer)
{
    mrd_json *doc = mrd_json_new_object(), *response = mrd_json_new_object(),
             *warnings = mrd_json_new_array();
    mrd_err err = MRD_OK;

    if (doc == NULL || response == NULL || warnings == NULL)
        err = MRD_NOMEM;
    for (size_t i = 0; err == MRD_OK && i < in->warnings.n; i++)
        err = mrd_json_append(warnings, mrd_json_new_str(in->warnings.v[i]));
    if (err == MRD_OK)
        err = mrd_json_set(response, "uid", mrd_json_new_str(uid));
    if (err == MRD_OK)
        err = mrd_json_set(response, "allowed", mrd_json_new_bool(true));
    if (err == MRD_OK && in->containers > 0) {
        err = mrd_json_set(response, "patchType", mrd_json_new_str("JSONPatch"));
        if (err == MRD_OK)
            err = mrd_json_set(response, "patch", encoded(in->patch));
    }
    if (err == MRD_OK && in->warnings.n > 0) {
        err = mrd_json_set(response, "warnings", warnings);
        warnings = NULL;
    }
    if (err == MRD_OK)
        err = mrd_json_set(doc, "apiVersion", mrd_json_new_str(API));
    if (err == MRD_OK)
        err = mrd_json_set(doc, "kind", mrd_json_new_str("AdmissionReview"));
    if (err == MRD_OK) {
        err = mrd_json_set(doc, "response", response);
        response = NULL;
    }
    if (err == MRD_OK) {
        *ret_answer = doc;
        doc = NULL;
    }
    mrd_json_free(doc);
    mrd_json_free(response);
    mrd_json_free(warnings);
    return err;
}

mrd_err
mrd_review_answer(const mrd_inject_options *options, const mrd_json *review, mrd_json **ret_answer,
                  mrd_review_done *ret_done, mrd_why *why)
{
    const mrd_json *request, *pod;
    mrd_review_done done = { .space = "" };
    mrd_injection in = { 0 };
    const char *uid;
    mrd_err err = MRD_OK;

    if (strcmp(mrd_json_str(review, "kind", ""), "AdmissionReview") != 0 ||
        strcmp(mrd_json_str(review, "apiVersion", ""), API) != 0)
        return mrd_why_set(why, MRD_INVALID, 0, "the body is not an AdmissionReview of " API);
    request = mrd_json_get(review, "request");
    if (!mrd_json_is_object(request))
        return mrd_why_set(why, MRD_TYPE, 0, "the review has no object 'request'");
    uid = mrd_json_str(request, "uid", "");
    if (!uid_ok(uid))
        return mrd_why_set(why, MRD_INVALID, 0,
                           "the request has no uid of 1 to %d printable characters: there is "
                           "nothing to answer to",
                           MRD_REVIEW_UID);
    if ((pod = pod_of(request)) != NULL) {
        describe(request, pod, &done);
        err = mrd_inject(options, pod, &in, why);
    }
    if (err == MRD_OK && (err = answer(uid, &in, ret_answer)) != MRD_OK)
        err = mrd_why_set(why, err, 0, "answer about a pod");
    if (err == MRD_OK) {
        done.containers = in.containers;
        done.warnings = in.warnings.n;
        *ret_done = done;
    }
    mrd_injection_fini(&in);
    return err;
}
