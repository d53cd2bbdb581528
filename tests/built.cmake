# cmake -DGUARD=PROGRAM -P built.cmake: fails with a sentence if the tests are not built.
if(NOT EXISTS ${GUARD})
    message(FATAL_ERROR "The tests are not built. Run `make test`, or build this folder with `cmake --build`.")
endif()
