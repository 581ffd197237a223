import"./c.3JL576TJ.js";import"./c.G2RL2DS2.js";import"./c.SJLQEVXC.js";import"./c.LV33K4KE.js";import"./c.67XCGD6B.js";import"./c.ZWLQM73E.js";
