import{a,b,c,d}from"./c.ZTJMSY25.js";import"./c.67XCGD6B.js";import"./c.ZWLQM73E.js";export{b as functions,a as keywords,d as sqlComplete,c as types};
