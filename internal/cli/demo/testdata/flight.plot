columns: calls in flight (cap 4) · digits: calls in each 100 ms
   4 ┤         █
   3 ┤  █      █
   2 ┤ ██      █
   1 ┤███      █
     └┬─────────
      111······1
      0 s
