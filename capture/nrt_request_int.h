/*
 * capture/nrt_request_int.h - inside of nrt_request.c (the control file, continuous profiles): the kinds of requests, and
 * below them nrt_request_answer.c. Internal. With the lock, unless said otherwise.
 */
#ifndef MRD_CAPTURE_NRT_REQUEST_INT_H
#define MRD_CAPTURE_NRT_REQUEST_INT_H

#include "capture/nrt_control.h"
#include "capture/nrt_request.h"

#define MRD_REQUEST_DIR  400
#define MRD_REQUEST_FILE (MRD_REQUEST_DIR + 112)

void mrd_request_lock(void);
void mrd_request_unlock(void);
extern mrd_control mrd_request_on; /* what is asked for; id 0: nothing */
/* The folder of all files of this user, of MRD_REQUEST_DIR bytes. */
char *mrd_request_top(void);
/* In a child of fork: nobody holds the lock, nothing is asked for. */
void mrd_request_forked(void);
bool mrd_request_wants(const mrd_control *r, int32_t core);
/* Makes it where it is not there; false: it is not this user's alone. */
bool mrd_request_own_folder(const char *dir);

/* ---- Answers: notices, without the lock too. core -1: of the request as a whole ---- */

void mrd_request_say(const char *message, uint64_t id, int32_t core, const char *why,
                     const char *dir);
void mrd_request_refuse(uint64_t id, int32_t core, const char *why);
void mrd_request_refuse_status(uint64_t id, int32_t core, const char *call, NRT_STATUS status);

/* ---- Kinds (nrt_request_model.c, nrt_request_inspect.c). arm: false when it was refused ---- */

bool mrd_request_model_arm(const mrd_control *r);
void mrd_request_model_chosen(void); /* its list of models is another one now */
void mrd_request_model_end(const mrd_control *r);
bool mrd_request_inspect_arm(const mrd_control *r);
void mrd_request_inspect_end(const mrd_control *r);

#endif
