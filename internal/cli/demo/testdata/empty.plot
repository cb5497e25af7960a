(no calls)
