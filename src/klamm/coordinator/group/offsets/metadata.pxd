cpdef tuple screen_metadata(object asked, object max_units)
