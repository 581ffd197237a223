import{a,b,c,d}from"./c.ZTJMSY25.js";import"./c.M5FQ55NN.js";import"./c.JX476QQJ.js";export{b as functions,a as keywords,d as sqlComplete,c as types};
