columns: calls in the second up to then (cap 50) · digits: calls in each 100 ms
  50 ┤          
  40 ┤          
  30 ┤       ▃▇█
  20 ┤     ▄████
  10 ┤   ▄██████
     └┬─────────
      ···5555451
      0 s
